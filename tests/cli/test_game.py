"""Games on the command line: `solve --formulation game`, `play` and `render`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from memplace_agents.registry import DEFAULTS
from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.game_local_search import GameLocalSearch
from memplace_agents.solution import Verdict
from memplace_env.cli import agent_run
from memplace_env.cli.app import app
from memplace_env.cli.model_flags import ModelFlags
from memplace_env.envs.registration import GAME, Formulation
from memplace_env.machine import accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from tests.cli.conftest import Run

MODEL = "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"
DECISIONS = 30


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`play("cnd", ...)` types these letters."""
    monkeypatch.chdir(tmp_path)
    return lambda keys, *more: CliRunner().invoke(app, ["play", MODEL, *more], input=keys)


def test_play_and_write(play: Callable[..., Result], tmp_path: Path) -> None:
    result = play("d\nd\nn\ng\nq\n", "--out", "plan.json")
    assert result.exit_code == 0, result.stderr
    assert "decision 4 of" in result.stdout
    assert "the game is over" in result.stdout
    assert "Written: plan.json" in result.stdout
    plan = MemoryPlan.load(tmp_path / "plan.json")
    assert plan.use_level[:3].tolist() == [1, 1, 0]
    assert plan.settings["workload"] == MODEL


def test_play_as_json(play: Callable[..., Result]) -> None:
    """The board goes to stderr, so that stdout is one document."""
    result = play("d\ng\n", "--json", "--out", "plan.json")
    assert "the game is over" in result.stderr
    values = json.loads(result.stdout)
    assert values.keys() == {"latency_s", "speedup", "decisions", "left_out", "plan"}
    assert (values["decisions"], values["left_out"], values["plan"]) == (DECISIONS, 0, "plan.json")
    assert json.loads(play("q", "--json").stdout) == {
        **values, "latency_s": values["latency_s"] * values["speedup"], "speedup": 1.0, "left_out": DECISIONS,
        "plan": None,
    }  # fmt: skip


def test_play_refuses_and_undoes(play: Callable[..., Result]) -> None:
    result = play("n\nx\ndu\nu\n")
    assert result.exit_code == 0, result.stderr
    for part in ("NoCopy is illegal: it is not in CMEM", "There is no key 'x'", "nothing to undo"):
        assert part in result.stdout
    assert f"the last {DECISIONS} decisions" in result.stdout
    assert "The game is over; u takes a decision back" in play("gd\nu\nq\n").stdout


def test_play_skips_forced_decisions(play: Callable[..., Result]) -> None:
    result = play("q\n", "--skip-forced")
    assert result.exit_code == 0
    assert "decision 1 of" not in result.stdout


def test_render_picture_of_a_plan(play: Callable[..., Result], run: Run, tmp_path: Path) -> None:
    play("gq", "--out", "plan.json")
    for name in ("a.png", "b.png"):
        result = run("render", MODEL, "plan.json", "--out", name, "--json")
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout) == {"picture": name, "frames": 1}
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (1200, 800)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("every", [7, 100])
def test_render_animation(run: Run, tmp_path: Path, every: int) -> None:
    result = run("render", MODEL, "--out", "game.gif", "--every", every)
    assert result.exit_code == 0, result.stderr
    with Image.open(tmp_path / "game.gif") as image:
        assert image.n_frames == -(-DECISIONS // every) + 1


def test_solve(run: Run, parsed: Callable[..., Any], tmp_path: Path) -> None:
    result = run("solve", MODEL, "--formulation", "game", "--budget", 64, "--out", "o")
    assert result.exit_code == 0, result.stderr
    assert "over all in backing memory" in result.stdout
    assert "native" not in result.stdout
    assert "no plan of any kind" in result.stdout
    assert "over the best of XLA's public option sets, xla-msa " in result.stdout
    assert "Left out of xla-msa llama2-70b: cross-program prefetch, memory-bound loop optimizer" in result.stdout
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["plan.json", "plan.png", "trace.json"]
    values = parsed("solve", MODEL, "--formulation", "game", "--budget", 64)
    assert values["baselines"].keys() == {"greedy-player", "xla-msa open-source", "xla-msa llama2-70b"}
    assert values["speedup"] >= max(values["baselines"].values())
    assert values["accelerator"] == "tpu-v4i"
    assert values["baseline"] == "all in backing memory"
    assert values["native_latency_s"] == pytest.approx(values["native"]["latency_s"])
    assert run("render", MODEL, "--agent", "greedy-player", "--out", "x.png").exit_code == 0


class _Prover(Agent[GameEvaluator]):
    """Plays the exact agent: anneals for a while, and proves a hundredth less than what that gives, or nothing less."""

    name = "exact"
    formulations = (Formulation.GAME,)
    share = 1.0

    def run(self, evaluator: GameEvaluator, seed: int) -> Verdict:
        GameLocalSearch().run(evaluator, seed)
        return Verdict(bound_s=self.share * evaluator.best_latency_s)


@pytest.mark.parametrize("share", [1.0, 0.99])
def test_a_bound_is_proven_after_a_search(
    run: Run, parsed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    """The exact agent proves it, as in the one-shot formulation; a plan of its own that is faster is shown."""
    monkeypatch.setattr("memplace_agents.Exact", _Prover)
    monkeypatch.setattr(_Prover, "share", share)
    asked = ("solve", MODEL, "--formulation", "game", "--agent", "greedy-player")
    values = parsed(*asked)
    found = {stage_result["name"]: stage_result["latency_s"] for stage_result in values["stage_results"]}
    assert values["bound_s"] == share * found["exact"]
    assert values["found_by"] == "greedy-player"
    assert values["gap"] == pytest.approx(found["greedy-player"] / values["bound_s"] - 1)
    assert values["outcome"] == ("optimal" if values["gap"] <= 1e-4 else "feasible")
    shown = " ".join(run(*asked).stdout.split())
    assert ("proven optimal" in shown) == (values["outcome"] == "optimal")
    is_faster = found["exact"] < found["greedy-player"]
    assert ("less; pass --agent exact or --agent portfolio to write one as fast." in shown) == is_faster
    assert (values["faster_plan"] is not None) == is_faster
    assert "no plan of any kind is faster, proven for this order of ops, without results in place. Traffic" in shown
    without = parsed(*asked, "--bound", 0)
    assert without["bound_s"] is without["gap"] is None
    told = " ".join(run(*asked, "--bound", 0).stdout.split())
    assert "Traffic bound: no plan of any kind can beat" in told
    assert " Bound: " not in told


def test_much_stall_is_shown_beside_a_baseline(run: Run, tmp_path: Path) -> None:
    """XLA's open-source defaults wait for copies for a quarter of AlexNet's time; with the other set for less."""
    setting = ("--formulation", "game", "--batch", 4, "--dtype", "bfloat16")
    result = run("solve", "AlexNet", *setting, "--agent", "greedy-player", "--out", "o")
    assert result.exit_code == 0, result.stderr
    stalls = dict(re.findall(r"xla-msa (\S+) [\d.]+× \(([\d.]+) % stall\)", result.stdout))
    assert float(stalls["open-source"]) > float(stalls["llama2-70b"]) >= 5


def test_a_faster_baseline(run: Run, parsed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A public set goes by its own name; the advice names an agent whose plan is as fast: not xla-msa by default."""
    every = agent_run.baselines_of
    without = lambda env: {name: found for name, found in every(env).items() if name != "greedy-player"}  # noqa: E731
    monkeypatch.setattr(agent_run, "baselines_of", without)
    asked = ("solve", "AlexNet", "--formulation", "game", "--batch", 4, "--dtype", "bfloat16", "--bound", 0)
    values = parsed(*asked, "--agent", "xla-msa")
    faster = values["faster_plan"]
    assert (faster["agent"], faster["speedup"]) == ("xla-msa llama2-70b", values["baselines"]["xla-msa llama2-70b"])
    shown = run(*asked, "--agent", "xla-msa").stdout
    assert "The plan of xla-msa llama2-70b takes " in shown
    assert " less; pass --agent portfolio to write one as fast." in shown
    assert parsed(*asked, "--agent", "portfolio", "--budget", 8)["report"]["latency_s"] <= faster["latency_s"]


@pytest.mark.parametrize(
    ("name", "formulation", "agent"),
    [
        ("xla-msa open-source", Formulation.GAME, "xla-msa"),
        ("xla-msa llama2-70b", Formulation.GAME, None),
        ("greedy-player", Formulation.GAME, "greedy-player"),
        ("all in backing memory", Formulation.GAME, None),
        ("native", Formulation.ONE_SHOT, "native"),
        ("native", Formulation.DYNAMIC, None),
    ],
)
def test_agent_of_a_baseline(name: str, formulation: Formulation, agent: str | None) -> None:
    assert agent_run.agent_of(name, formulation) == agent


def test_plans_of_a_resident_chip(run: Run, parsed: Callable[..., Any], tmp_path: Path) -> None:
    """A shipped one, and one's own, which is named again: the streamed copy is played, said, and found again."""
    model = "synthetic:diamond?ops=9&seed=1&accelerator=edge-tpu"
    preset = Path(accelerator.__file__).parent / "presets" / "edge-tpu.toml"
    (tmp_path / "mine.toml").write_text(preset.read_text().replace('name = "edge-tpu"', 'name = "mine"'))
    for chip, name in (("edge-tpu", "edge-tpu-streamed"), ("mine.toml", "mine-streamed")):
        result = run("solve", model, "--formulation", "game", "--agent", "greedy-player", "-a", chip)
        assert result.exit_code == 0, result.stderr
        assert f"on {name}:" in result.stdout
        plan = next((tmp_path / "out").glob(f"*{name}-greedy-player/plan.json"))
        own = ("-a", "mine.toml-streamed") if chip == "mine.toml" else ()
        assert run("validate", model, plan, *own).exit_code == 0
        assert parsed("simulate", model, plan, *own)["accelerator"] == name
        for command in ("explain", "compare"):
            assert run(command, model, plan, *own).exit_code == 0
        wrong = run("validate", model, plan, "-a", chip)
        assert wrong.exit_code == 1
        assert f"another accelerator ('{name}')" in wrong.stdout


def test_agents_of_both_kinds(parsed: Callable[..., Any]) -> None:
    rows = {row["name"]: row["formulation"] for row in parsed("agents")}
    assert rows["local-search"] == "one-shot"
    assert rows[DEFAULTS[Formulation.GAME]] == "game"


def test_envs_of_both_kinds(parsed: Callable[..., Any]) -> None:
    ids = {row["id"] for row in parsed("envs")}
    assert {"MallocGame-v0", "MemPlace-v0", *(f"MallocGame-{name}-v0" for name in GAME)} <= ids


def test_registered_settings() -> None:
    """Each formulation has its own, and so has a chip that an id names; a flag about the model drops them."""
    _, flags = ModelFlags().registered("bert", Formulation.GAME)
    assert (flags.chip, flags.batch, flags.dims) == ("tpu-v4i", GAME["BERT"]["batch"], GAME["BERT"]["dims"])
    edge = GAME["ResNet101-edge-tpu"]
    name, flags = ModelFlags(accelerator="edge-tpu").registered("ResNet101", Formulation.GAME)
    assert (name, flags.chip, flags.batch) == ("ResNet101", "edge-tpu", edge["batch"])
    assert ModelFlags(batch=3).registered("BERT", Formulation.GAME)[1].dims is None
    assert ModelFlags().registered("BERT")[1].chip == "nnp-i"


@pytest.mark.parametrize("command", ["play", "render"])
def test_help_has_an_example(run: Run, command: str) -> None:
    assert f"Example: memplace {command}" in run(command, "--help").stdout


def test_plans_of_no_game(run: Run, tmp_path: Path) -> None:
    """A plan that was made for something else."""
    assert run("play", MODEL, "--out", "plan.json").exit_code == 0
    document = json.loads((tmp_path / "plan.json").read_text())
    document["program_sha256"] = "0" * 64
    (tmp_path / "plan.json").write_text(json.dumps(document))
    result = run("render", MODEL, "plan.json", "--out", "x.png")
    assert result.exit_code == 2
    assert "another program" in result.stderr


@pytest.mark.parametrize(("module", "name"), [("PIL.Image", "Pillow"), ("matplotlib.figure", "matplotlib")])
def test_render_names_what_is_not_installed(run: Run, monkeypatch: pytest.MonkeyPatch, module: str, name: str) -> None:
    """Before anything is played."""
    monkeypatch.setitem(sys.modules, module, None)
    result = run("render", MODEL, "--out", "game.gif")
    assert result.exit_code == 2
    needed = f'Pictures need {name}, which is not installed; run: pip install "memplace[viz]".'
    assert result.stderr == f"memplace: {needed}\n"
