"""The examples and README's learning lines learn: they end above what needs no search."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest

from examples import mcts, policy_to_row, ppo
from memplace_agents import make_agent

ROOT = Path(__file__).parents[1]
XLA = 2.68
"""Return of XLA's solver on MallocGame-BERT-v0; a test holds it."""


def test_xlas_solver_has_that_return():
    assert 100 * (1 - 1 / make_agent("xla-msa").solve("MallocGame-BERT-v0").speedup) == pytest.approx(XLA, abs=0.005)


def test_ppo_learns_a_game():
    curve = ppo.train("MallocGame-BERT-v0", 164_000)
    assert curve[-1].steps >= 164_000
    assert curve[-1].best > curve[-1].mean > XLA
    assert ppo.peak_and_fall(curve) == (curve[-1].mean, 0)  # fewer games than have a mean that counts
    points = [ppo.Point(1.0, 1, number, mean, 9.0) for number, mean in ((9, 8.0), (256, 5.0), (300, 6.0), (400, 4.5))]
    assert ppo.peak_and_fall(points) == (6.0, 1.5)


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["MemPlace", "MemPlaceSteps", "MallocGame"])
def test_ppo_solves_the_tiny_ids(family):
    env_id = f"{family}-Tiny-v0"
    info = gym.make(env_id).reset()[1]
    last = ppo.train(env_id, 262_144)[-1]
    assert last.best == pytest.approx(info["optimal_return"])
    assert last.mean >= 0.96 * info["optimal_return"]


def test_a_graph_network_learns_a_game():
    graph_policy = pytest.importorskip("examples.graph_policy", reason="needs PyTorch Geometric", exc_type=SystemExit)
    graph_policy.torch.manual_seed(0)
    means = graph_policy.train("MallocGame-Tiny-v0", 12)
    assert max(means[-2:]) > 3 * means[0]
    assert len(graph_policy.train("MallocGame-Synthetic-v0", 1, count=3)) == 1


def test_a_policy_trained_on_many_programs_plays_others(tmp_path):
    policy = str(tmp_path / "policy.zip")
    assert policy_to_row.train(8_192, policy) > 0
    first, again, other = (
        policy_to_row.Trained(policy).solve(policy_to_row.UNSEEN[1], budget=9, seed=s) for s in (1, 1, 2)
    )
    assert first.evaluations == 9
    assert first.plan == again.plan
    assert first.history[0].latency_s == other.history[0].latency_s  # the first game is greedy


@pytest.mark.thorough
def test_the_row_of_that_policy_verifies(tmp_path):
    policy = tmp_path / "policy.zip"
    commands = policy_to_row.ROW.format(policy=policy, plans=policy_to_row.train(8_192, str(policy)))
    lines = commands.replace("\\\n", "").replace("--suite", "--budget 1 --suite").splitlines()[2:]
    for line in lines:
        words = [str(tmp_path / "row") if word == "row" else word for word in line.split()]
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=ROOT / "examples", capture_output=True, text=True, check=True)
    assert "trained-policy" in done.stdout


def test_ppo_is_determined_by_its_seed():
    first, again, other = (ppo.train("MallocGame-Tiny-v0", 4_096, seed) for seed in (1, 1, 2))
    assert [point[1:] for point in first] == [point[1:] for point in again]
    assert first[-1][1:] != other[-1][1:]


@pytest.mark.parametrize("env_id", ["MallocGame-Synthetic-v0", "MemPlaceSteps-Train-v0"])
def test_ppo_trains_on_many_programs(env_id, monkeypatch):
    monkeypatch.setitem(ppo.SETTINGS, env_id.split("-")[0], ppo.Settings(envs=8))
    first, second = ppo.train(env_id, 100)[0], ppo.train(env_id, 9_000)[-1]
    assert second.steps % first.steps == 0


def test_the_command_line_prints_the_curve(tmp_path):
    kept = ["--csv", str(tmp_path / "curve.csv"), "--tensorboard", str(tmp_path)]
    command = [sys.executable, "examples/ppo.py", "MemPlace-Tiny-v0", "--steps", "8192", "--json", *kept]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    assert [point["steps"] for point in printed["curve"]] == list(range(1024, 8193, 1024))
    assert printed["peak"] >= printed["curve"][-1]["mean"]
    head, *rows = (tmp_path / "curve.csv").read_text("utf-8").splitlines()
    assert head == "id,algorithm,seed,step,seconds,return"
    assert [row.split(",")[3] for row in rows] == [str(point["steps"]) for point in printed["curve"]]
    assert list(tmp_path.glob("*/events.out.*"))


def test_ids_of_other_kinds_are_refused_and_prefixes_are_not():
    assert ppo.settings_of("memplace_env:MallocGame-Tiny-v0") == ppo.settings_of("MallocGame-BERT-v0")
    with pytest.raises(SystemExit, match="pass one such as MallocGame-BERT-v0"):
        ppo.settings_of("BERT")


def test_tree_search_is_better_than_xlas_solver():
    env = gym.make("MallocGame-BERT-v0", observation="flat", skip_forced=True).unwrapped
    found = mcts.search(env, 24, seed=0)
    assert found > XLA
    assert found == mcts.search(env, 24, seed=0)
    assert mcts.search(env, 1, seed=0) < found


class Learned(NamedTuple):
    """One of README's calls of `learn`: environment, steps and mean return of the last 100 episodes."""

    env_id: str
    steps: int
    mean: float


def run_lines(divisor: int) -> list[Learned]:
    """Run the second block of README's Python in order, each call of `learn` with its steps divided, without logs."""
    _, block = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    parts = re.split(r"(?<=\n)(?=\w+ = VecMonitor)", block.replace('"verbose": 1', '"verbose": 0'))
    names: dict[str, Any] = {}
    exec(f"import gymnasium as gym\nimport memplace_env\n{parts[0]}", names)
    return [_learn(part, divisor, names) for part in parts[1:]]


def _learn(lines: str, divisor: int, names: dict[str, Any]) -> Learned:
    shorter = re.sub(r"learn\(([\d_]+)\)", lambda found: f"learn({int(found[1]) // divisor})", lines)
    exec(shorter, names)
    (name,) = re.findall(r"^(\w+) = .*learn\(", lines, re.MULTILINE)
    (env_id,) = re.findall(r'make_vec\("([\w-]+)"', lines)
    model = names[name]
    mean = float(np.mean([episode["r"] for episode in model.ep_info_buffer]))
    return Learned(env_id, model.num_timesteps, mean)


def test_the_learning_lines_of_the_readme_learn():
    one_shot, game = run_lines(divisor=8)
    assert (one_shot.env_id, game.env_id) == ("MemPlace-ResNet50-v0", "MallocGame-BERT-v0")
    assert one_shot.mean > 1.0  # native's
    assert game.mean > XLA


@pytest.mark.slow
@pytest.mark.parametrize("drawn", [False, True])
def test_ppo_in_jax_learns_over_seeds_and_programs(drawn, monkeypatch):
    """Play ids of their own, and a split in three classes; programs are in another order than by size."""
    pytest.importorskip("jax")
    from examples import ppo_jax

    ids = [f"memplace_env:MemPlaceSteps-{name}-v0" for name in ("ResNet50", "Tiny", *["NeRF"] * drawn)]
    problems = [gym.make(env_id).unwrapped.problem for env_id in ids]
    monkeypatch.setattr(ppo_jax, "split_problems", lambda *_: problems)
    ids = ["MemPlaceSteps-Train-v0"] if drawn else ids
    curve, best = ppo_jax.train(ids, rounds=5, seeds=2)
    assert [means.shape for _, _, means in curve] == [(2, len(ids))] * 5
    assert curve[0][1] == sum(problem.num_decisions for problem in problems) * (128 if drawn else 64)
    assert (curve[-1][2] > curve[0][2]).all()
    assert (np.array(best) > curve[-1][2].mean(0)).all()


def test_ppo_in_jax_refuses_what_it_does_not_play(monkeypatch, capsys):
    pytest.importorskip("jax")
    from examples import ppo_jax

    for ids in ["MemPlace-Tiny-v0", "MallocGame-Synthetic-v0", "MemPlaceSteps-Tiny-v0 MallocGame-Tiny-v0"]:
        monkeypatch.setattr(sys, "argv", ["ppo_jax.py", *ids.split()])
        with pytest.raises(SystemExit):
            ppo_jax.main()
        assert "ids of" in capsys.readouterr().err.splitlines()[-1]
