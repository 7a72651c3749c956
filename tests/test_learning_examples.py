"""The examples and README's learning lines learn: they end above what needs no search."""

import json
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import torch

from examples import mcts, ppo

ROOT = Path(__file__).parents[1]
XLA = 2.68
"""Return of XLA's solver on MallocGame-BERT-v0; a test holds it."""


def test_xlas_solver_has_that_return():
    assert ppo.rules("MallocGame-BERT-v0")["xla-msa"] == pytest.approx(XLA, abs=0.005)


def test_ppo_learns_a_game():
    *_, last = ppo.train("MallocGame-BERT-v0", seed=0, steps=65_536)
    assert last.steps == 65_536
    assert last.mean > XLA
    assert last.best > last.mean


@pytest.mark.thorough
@pytest.mark.parametrize("family", ["MemPlace", "MemPlaceSteps", "MallocGame"])
def test_ppo_solves_the_tiny_ids(family):
    env_id = f"{family}-Tiny-v0"
    info = gym.make(env_id).reset()[1]
    *_, last = ppo.train(env_id, seed=0, steps=262_144)
    assert last.best == pytest.approx(info["optimal_return"])
    assert last.mean >= 0.98 * info["optimal_return"]


def test_ppo_is_determined_by_its_seed():
    first, again, other = (list(ppo.train("MallocGame-Tiny-v0", seed, steps=24_576)) for seed in (1, 1, 2))
    assert [point[1:] for point in first] == [point[1:] for point in again]
    assert first[-1][1:] != other[-1][1:]


@pytest.mark.parametrize(
    "env_id",
    [
        "MallocGame-Train-v0",
        "MemPlaceSteps-Train-v0",
        pytest.param("MallocGame-Synthetic-v0", marks=pytest.mark.thorough),
    ],
)
def test_ppo_trains_on_many_programs(env_id, monkeypatch):
    monkeypatch.setitem(ppo.SETTINGS, env_id.split("-")[0], ppo.Settings(envs=8))
    first, second = islice(ppo.train(env_id, seed=0), 2)
    assert second.steps == 2 * first.steps
    assert ppo.rules(env_id) == {}


def test_values_keep_when_their_units_change():
    torch.manual_seed(0)
    net = ppo.ActorCritic(5, 32, 1, 3)
    seen = torch.randn(64, 5)
    before = net.value(seen)
    net.rescale(torch.randn(100) * 7 + 300, weight=0.3)
    assert torch.allclose(net.value(seen), before, atol=1e-3)


def test_the_command_line_prints_curve_and_rules():
    command = [sys.executable, "examples/ppo.py", "MemPlace-Tiny-v0", "--steps", "8192", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    printed = json.loads(done.stdout)
    assert [point["steps"] for point in printed["curve"]] == [8192]
    assert printed["rules"]["native"] == 1.0


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
