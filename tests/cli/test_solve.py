"""`memplace solve`."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from memplace_agents import OneShotEvaluator, Solution
from memplace_agents.random_search import RandomSearch
from memplace_env._lib import files
from memplace_env._lib.compilation import begin_preparation, end_preparation
from memplace_env.cli.console import default_folder
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import BuiltinSimulator, Report
from memplace_env.program.program import Program
from tests.cli.conftest import MODEL, Run

QUICK = ("--agent", "random", "--budget", 64)


@pytest.fixture
def no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide matplotlib, like an installation without it."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)


def test_writes_plan_picture_and_trace(run: Run, tmp_path: Path) -> None:
    result = run("solve", MODEL, *QUICK)
    assert result.exit_code == 0
    for part in ("native", "bound", "SRAM moved", "Written: "):
        assert part in result.stdout
    folder = tmp_path / "out" / "synthetic-diamond-ops-9-seed-1-nnp-i-random"
    assert sorted(path.name for path in folder.iterdir()) == ["plan.json", "plan.png", "trace.json"]
    assert MemoryPlan.load(folder / "plan.json").settings["workload"] == MODEL
    assert (folder / "plan.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / "trace.json").read_text())["traceEvents"]


def test_an_agent_of_the_current_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A console script has the folder of the script in sys.path, not the current one."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = "from memplace_agents.random_search import RandomSearch\n\n\nclass Mine(RandomSearch):\n    name = 'mine'\n"
    (tmp_path / "agent_of_this_folder.py").write_text(text)
    result = run("solve", MODEL, "--agent", "agent_of_this_folder:Mine", "--budget", 8, "--bound", 0)
    assert result.exit_code == 0, result.stderr
    assert "found by agent_of_this_folder:Mine" in result.stdout


@pytest.mark.usefixtures("no_picture")
def test_json_without_matplotlib(run: Run, tmp_path: Path) -> None:
    """The summary is all there is on stdout; a stale picture does not stay beside the new plan."""
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "plan.png").write_bytes(b"old")
    result = run("solve", MODEL, *QUICK, "--out", "o", "--json")
    summary = json.loads(result.stdout)
    keys = {"workload", "accelerator", "settings", "agent", "outcome", "speedup", "bound_s", "gap", "evaluations"}
    assert keys | {"native", "report", "bottlenecks", "files", "seed", "seconds"} <= summary.keys()
    assert summary["files"] == {"plan": "o/plan.json", "picture": None, "trace": "o/trace.json"}
    assert summary["stage_results"][0]["evaluations"] == 64
    assert 'pip install "memplace[viz]"' in result.stderr
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["plan.json", "trace.json"]


@pytest.mark.usefixtures("no_picture")
def test_same_seed_same_files(run: Run, tmp_path: Path) -> None:
    for out in ("a", "b"):
        assert run("solve", MODEL, *QUICK, "--seed", 5, "--out", out).exit_code == 0
    for name in ("plan.json", "trace.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


@pytest.mark.usefixtures("no_picture")
def test_auto_is_the_default(parsed: Callable[..., Any]) -> None:
    summary = parsed("solve", MODEL)
    assert (summary["agent"], summary["outcome"]) == ("auto", "optimal")
    assert summary["found_by"] in [stage_result["name"] for stage_result in summary["stage_results"]]


@pytest.mark.usefixtures("no_picture")
def test_exact_proves(parsed: Callable[..., Any]) -> None:
    summary = parsed("solve", MODEL, "--agent", "exact", "--time-limit", 20)
    assert summary["bound_s"] <= summary["report"]["latency_s"] <= summary["native_latency_s"]
    assert [stage_result["name"] for stage_result in summary["stage_results"]] == ["exact"]


@pytest.mark.usefixtures("no_picture")
def test_tensors_that_move(run: Run, parsed: Callable[..., Any]) -> None:
    """The bound is one for plans of any kind, and the static plan is shown beside the dynamic one."""
    dynamic = ("solve", MODEL, "--formulation", "dynamic", "--time-limit", 5)
    summary = parsed(*dynamic)
    found = {stage_result["name"]: stage_result["latency_s"] for stage_result in summary["stage_results"]}
    assert list(found) == ["exact", "exact-dynamic"]
    assert summary["agent"] == "exact-dynamic"
    assert summary["baseline"] == "native"
    assert summary["bound_s"] <= summary["report"]["latency_s"] == found["exact-dynamic"] <= found["exact"]
    shown = run(*dynamic).stdout
    assert "no plan of any kind is faster, proven" in shown
    assert "one level" not in shown


def test_only_agents_that_move_tensors_are_asked_for_that(run: Run) -> None:
    for agent, asked in (("exact", "dynamic"), ("exact-dynamic", "one-shot"), ("exact-dynamic", "game")):
        refused = run("solve", MODEL, "--formulation", asked, "--agent", agent)
        assert refused.exit_code == 2
        assert f"{agent} plays --formulation" in refused.stderr


@pytest.mark.usefixtures("no_picture")
def test_a_named_agent_writes_its_own_plan(run: Run, parsed: Callable[..., Any], tmp_path: Path) -> None:
    """A bound is proven for agents that prove nothing; the better plan that this finds is shown, not written."""
    summary = parsed("solve", MODEL, *QUICK, "--out", "o")
    found = {stage_result["name"]: stage_result["latency_s"] for stage_result in summary["stage_results"]}
    assert list(found) == ["random", "exact"]
    assert (summary["found_by"], summary["outcome"]) == ("random", "feasible")
    assert summary["bound_s"] <= found["exact"] < summary["report"]["latency_s"] == found["random"]
    speedup = summary["native_latency_s"] / found["exact"]
    assert summary["faster_plan"] == {"agent": "exact", "latency_s": found["exact"], "speedup": pytest.approx(speedup)}
    written = parsed("simulate", tmp_path / "o" / "plan.json")
    assert written["report"]["latency_s"] == found["random"]
    shown = run("solve", MODEL, *QUICK, "--out", "o").stdout
    assert "found by random, not the fastest plan that was found" in shown
    saved = 100 * (1 - found["exact"] / found["random"])
    assert f"{saved:.1f} % less; pass --agent exact or --agent auto to write one as fast." in shown
    assert "The plan is by random." in shown


@pytest.mark.usefixtures("no_picture")
def test_native_faster_than_the_agent(run: Run, parsed: Callable[..., Any]) -> None:
    """The plan that the speed-up is over is one that was found, and its agent writes it."""
    asked = ("solve", "AlexNet", "--agent", "density-greedy", "--bound", 0)
    summary, native = parsed(*asked), parsed("solve", "AlexNet", "--agent", "native", "--bound", 0)
    assert summary["faster_plan"] == {"agent": "native", "latency_s": native["report"]["latency_s"], "speedup": 1.0}
    shown = run(*asked).stdout
    assert "found by density-greedy, not the fastest plan that was found" in shown
    assert "The plan of native takes " in shown
    assert " less; pass --agent native or --agent auto to write one as fast." in shown
    assert native["faster_plan"] is None


def test_files_of_one_name_have_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = ["net.onnx", "a/net.onnx", "b/net.onnx", "../net.onnx", "/data/net.onnx", tmp_path / "c" / "net.onnx"]
    folders = [str(default_folder(str(file), "nnp-i")) for file in files]
    assert folders[:2] == ["out/net-nnp-i", "out/a-net-nnp-i"]
    assert folders[-1] == "out/c-net-nnp-i"
    assert len(set(folders)) == len(files)
    assert len(default_folder("/".join(["deep"] * 200) + "/net.onnx", "nnp-i").name) < 255


@pytest.mark.usefixtures("no_picture")
def test_each_named_agent_has_a_folder(parsed: Callable[..., Any]) -> None:
    """Plans of two agents can be compared; the default agent keeps the plain folder."""
    plain = "out/synthetic-diamond-ops-9-seed-1-nnp-i"
    folders = {"auto": "", "random": "-random", "native": "-native", "random local-search": "-random+local-search"}
    folders |= {"auto random": "", "random random": "-random"}
    for agents, folder in folders.items():
        flags = [part for name in agents.split() for part in ("--agent", name)]
        summary = parsed("solve", MODEL, *flags, "--budget", 64, "--bound", 0)
        assert summary["files"]["plan"] == f"{plain}{folder}/plan.json"
    compared = parsed("compare", f"{plain}-random/plan.json", f"{plain}-native/plan.json")
    assert len({plan["report"]["latency_s"] for plan in compared["plans"]}) == 2


@pytest.mark.usefixtures("no_picture")
def test_the_default_agent_writes_the_best_of_all(parsed: Callable[..., Any]) -> None:
    """Also beside others, and when the time is too short for its own proof."""
    summary = parsed("solve", MODEL, "--agent", "random", "--agent", "auto", "--budget", 64)
    assert summary["outcome"] == "optimal"
    assert summary["faster_plan"] is None
    assert summary["report"]["latency_s"] == min(row["latency_s"] for row in summary["stage_results"])


@pytest.mark.usefixtures("no_picture")
def test_seconds_do_not_count_compiling(parsed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    search = RandomSearch.run

    def compiling(self: RandomSearch, evaluator: OneShotEvaluator, seed: int) -> None:
        begin_preparation(compiling=True)
        time.sleep(0.5)
        end_preparation(compiling=True)
        search(self, evaluator, seed)

    monkeypatch.setattr(RandomSearch, "run", compiling)
    begin = time.perf_counter()
    (row,) = parsed("solve", MODEL, *QUICK, "--bound", 0)["stage_results"]
    assert 0 < row["seconds"] < time.perf_counter() - begin - 0.5


@pytest.mark.usefixtures("no_picture")
def test_agents_side_by_side(run: Run, parsed: Callable[..., Any]) -> None:
    both = ("--agent", "random", "--agent", "local-search", "--budget", 64)
    stage_results = parsed("solve", MODEL, *both)["stage_results"]
    assert [stage_result["name"] for stage_result in stage_results] == ["random", "local-search", "exact"]
    assert [stage_result["evaluations"] for stage_result in stage_results[:2]] == [64, 64]
    shown = run("solve", MODEL, *both).stdout
    assert all(name in shown for name in ("Agents", "native", "random", "local-search", "exact", "bound"))


@pytest.mark.usefixtures("no_picture")
def test_meeting_the_bound_is_optimal(run: Run, parsed: Callable[..., Any]) -> None:
    """In this short chain the search starts from the optimum."""
    easy = ("solve", "synthetic:chain?ops=8", "--agent", "local-search", "--budget", 8)
    assert parsed(*easy)["outcome"] == "optimal"
    assert "found by local-search, proven optimal" in run(*easy).stdout


@pytest.mark.usefixtures("no_picture")
def test_no_bound_if_none_is_wanted(run: Run, parsed: Callable[..., Any]) -> None:
    summary = parsed("solve", MODEL, *QUICK, "--bound", 0)
    assert summary["bound_s"] is summary["gap"] is None
    assert "no plan of any kind can beat" in run("solve", MODEL, *QUICK, "--bound", 0).stdout


class _Slower:
    """A simulator whose costs the exact agent does not know."""

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        return BuiltinSimulator().run(program, accelerator, plan)


@pytest.mark.usefixtures("no_picture")
def test_no_bound_with_another_simulator(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memplace_env.placement.resolve_task.resolve_simulator", lambda name: _Slower())
    result = run("solve", MODEL, *QUICK, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["bound_s"] is None
    assert "No bound is proven: " in result.stderr
    assert "leave out --simulator" in result.stderr


@pytest.mark.usefixtures("no_picture")
@pytest.mark.parametrize(("chip", "noted"), [("edge-tpu", True), ("intel-npu-4000", False)])
def test_a_chip_without_mechanisms_is_noted(run: Run, chip: str, noted: bool) -> None:
    events = ("-a", chip, "--simulator", "event")
    line = f"{chip} describes no mechanisms, so --simulator event equals builtin here"
    result = run("solve", MODEL, *QUICK, *events, "--out", chip)
    assert (line in result.stderr) == noted
    result = run("simulate", Path(chip) / "plan.json", "--simulator", "event")
    assert (line in result.stderr) == noted, result.stderr


@pytest.mark.usefixtures("no_picture")
def test_registered_sizes_and_flags_over_them(run: Run) -> None:
    named = run("solve", "squeezenet", *QUICK, "--json")
    assert "SqueezeNet at the sizes of MemPlace-SqueezeNet-v0: batch 2, float16" in named.stderr
    assert "This is the registered problem, MemPlace-SqueezeNet-v0." in named.stderr
    settings = json.loads(named.stdout)["settings"]
    assert [settings[name] for name in ("batch", "dtype", "fusion", "patterns")] == [2, "float16", "epilogue", "on"]
    unfused = run("solve", "SqueezeNet", *QUICK, "--fusion", "none", "--json", "--out", "unfused")
    assert re.search(r"SqueezeNet-v0, the registered problem, is another graph: native 98\.9 µs, here", unfused.stderr)
    assert "'memplace solve MemPlace-SqueezeNet-v0' solves that." in unfused.stderr
    sliced = run("solve", "SqueezeNet", *QUICK, "--slices", 0.5, "--json", "--out", "sliced")
    assert "at the sizes of" in sliced.stderr
    assert "registered problem" not in sliced.stderr
    by_id = run("solve", "MemPlace-SqueezeNet-v0", *QUICK)
    assert "problem: SqueezeNet with fusion conv, patterns off, in place none." in by_id.stderr
    assert "MemPlace-SqueezeNet-v0-nnp-i" in by_id.stdout
    own = run("solve", "SqueezeNet", *QUICK, "--batch", 1, "--out", "own", "--json")
    assert "MemPlace-SqueezeNet-v0" not in own.stderr
    assert json.loads(own.stdout)["settings"] == {
        "batch": 1,
        "dims": None,
        "dtype": "int8",
        "fusion": "epilogue",
        "patterns": "on",
        "workload": "SqueezeNet",
        "accelerator": "nnp-i",
    }


def test_no_plan_found(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(self: RandomSearch, env: gym.Env[Any, Any], **options: Any) -> Solution:
        return Solution("random", "unknown", None, None, 1.0, None, (), 0, 0.0, 0)

    monkeypatch.setattr(RandomSearch, "solve", nothing)
    result = run("solve", MODEL, *QUICK)
    assert result.exit_code == 1
    assert "found no plan" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_failing_write_leaves_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, like: Path) -> int:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(files, "_opened", full)
    result = run("solve", MODEL, *QUICK, "--out", "deep/down")
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("no_picture")
def test_a_blocked_file_leaves_the_others_as_they_were(run: Run, tmp_path: Path) -> None:
    (tmp_path / "o" / "trace.json").mkdir(parents=True)
    (tmp_path / "o" / "plan.json").write_text("old")
    result = run("solve", MODEL, *QUICK, "--out", "o", "--force")
    assert result.exit_code == 2
    assert (tmp_path / "o" / "plan.json").read_text() == "old"
    assert sorted(path.name for path in (tmp_path / "o").iterdir()) == ["plan.json", "trace.json"]


def test_noise_is_measured_and_the_truth_is_written(run: Run) -> None:
    """The latency is the plan's own; every repeated measurement is within the budget."""
    result = run("solve", MODEL, *QUICK, "--noise", 0.05, "--json")
    noisy, exact = json.loads(result.stdout), json.loads(run("solve", MODEL, *QUICK, "--json").stdout)
    assert noisy["evaluations"] <= 64
    assert noisy["speedup"] <= exact["speedup"]
    assert noisy["speedup"] == noisy["native"]["latency_s"] / noisy["report"]["latency_s"]


@pytest.mark.parametrize("noise", [-1, 1.5])
def test_no_such_noise(run: Run, noise: float) -> None:
    result = run("solve", MODEL, *QUICK, "--noise", noise)
    assert result.exit_code == 2
    assert "--noise" in result.stderr


def test_tie_breaks(run: Run) -> None:
    """--tie-break reaches the agent; an agent without it says which have it."""
    found = {
        value: json.loads(run("solve", MODEL, "--agent", "exact", "--tie-break", value, "--json", "--force").stdout)
        for value in ("none", "backing")
    }
    latency = {value: summary["report"]["latency_s"] for value, summary in found.items()}
    assert latency["none"] == latency["backing"]
    assert found["backing"]["backing_port_s"] <= found["none"]["backing_port_s"]
    assert found["none"]["backing_port_before_s"] is None
    said = run("solve", MODEL, "--agent", "exact", "--force").stdout
    assert ("before the tie-break" in said) == (found["backing"]["backing_port_before_s"] is not None)
    refused = run("solve", MODEL, "--agent", "native", "--tie-break", "none")
    assert refused.exit_code == 2
    assert "native breaks no ties, so it takes no --tie-break; these do: auto, exact." in refused.stderr


def test_warnings_of_the_library_are_notes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memplace_agents.exact.clock.GUARD", 1e-9)
    monkeypatch.setattr("memplace_agents.exact.clock.LEAST_GUARD", 1e-9)
    result = run("solve", "synthetic:random?ops=40&seed=3", "--agent", "auto", "--budget", "20")
    assert result.exit_code == 0
    assert "with work left, as this machine is slow or busy" in result.stderr


@pytest.mark.parametrize(
    "given", [("ShuffleNetV2", "ethos-u65"), ("MobileNetV2", "ethos-u65"), ("ShuffleNetV2", "nnp-i")]
)
def test_operators_whose_estimates_may_be_far_off(run: Run, given: tuple[str, str]) -> None:
    solved = run("solve", given[0], "-a", given[1], "--agent", "native", "--bound", 0)
    assert ("Vela's (Transpose, Split)" in solved.stderr) == (given == ("ShuffleNetV2", "ethos-u65"))
