"""`memplace train`, and its policies in `memplace solve --policy`."""

from __future__ import annotations

import errno
import json
import os
import pickle
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from memplace_agents.egrl import EGRLConfig
from memplace_agents.plan_gradient import PlanGradient
from memplace_agents.registry import agent_spec, agent_specs
from memplace_env._lib import files
from memplace_env._lib.errors import AgentError
from memplace_env._lib.files import alone
from memplace_env.cli.app import app
from memplace_env.cli.shared_options import configured
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.memory_plan import MemoryPlan
from tests.cli.conftest import MODEL, OTHER, Run, started
from tests.patience import patience

GAME = "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"
SMALL = ("--set", "population=6", "--set", "elites=2", "--set", "hidden=16", "--set", "refine=0.5")
FILES = {"checkpoint.pt", "policy.pt", "plan.json", "history.json", "tensorboard"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of one seed on MODEL."""
    out = tmp_path_factory.mktemp("trained") / "run"
    result = CliRunner().invoke(app, ["train", "egrl", MODEL, "--budget", "40", *SMALL, "--out", str(out)])
    assert result.exit_code == 0, result.output
    return out


def test_files(run: Run, trained: Path) -> None:
    folder = trained / "seed-0"
    assert {path.name for path in folder.iterdir()} == FILES
    (workload,) = json.loads((folder / "history.json").read_text())["workloads"]
    assert workload["workload"] == MODEL
    assert workload["evaluations"] == 40
    assert workload["history"][-1]["speedup"] == workload["speedup"] >= 1
    assert MemoryPlan.load(folder / "plan.json").settings["workload"] == MODEL
    assert run("validate", MODEL, folder / "plan.json").exit_code == 0


def test_several_seeds_are_independent_and_tell_how_to_use_the_policy(run: Run, tmp_path: Path) -> None:
    result = run("train", "egrl", MODEL, "--budget", 20, "--seed", 3, "--seeds", 2, *SMALL)
    assert result.exit_code == 0, result.output
    out = tmp_path / "out" / "train-egrl-synthetic-diamond-ops-9-seed-1"
    assert {path.name for path in out.iterdir()} == {"run.json", "seed-3", "seed-4"}
    assert f"memplace solve '{MODEL}' --agent egrl --policy out/" in result.stdout


RECORDS = [
    *(b"", b"{", b"[]", b"null", b"[" * 10**5, b'{"budget": ' + b"9" * 5000 + b"}", b"\xff", b"{}"),
    *(b'{"budget": "40", "workloads": []}', b'{"budget": 40}', b'{"budget": 40, "workloads": []}'),
    *(b'{"budget": 40, "workloads": [{}]}', b'{"budget": 40, "workloads": 3}', b'{"budget": 0, "workloads": [{}]}'),
]


@pytest.mark.parametrize("name", ["run.json", "seed-0/history.json"])
def test_damaged_records_are_refused(run: Run, trained: Path, name: str) -> None:
    before = (trained / name).read_bytes()
    try:
        for raw in RECORDS:
            (trained / name).write_bytes(raw)
            result = run("train", "egrl", MODEL, "--out", trained, *SMALL, "--budget", 40, "--resume")
            assert result.exit_code == 2, raw[:50]
            assert result.stderr.count("\n") == 1
            assert str(trained) in result.stderr
    finally:
        (trained / name).write_bytes(before)


def test_two_runs_do_not_share_a_folder(run: Run, tmp_path: Path) -> None:
    with alone(tmp_path / "o"):
        result = run("train", "egrl", MODEL, "--out", "o", *SMALL)
        assert result.exit_code == 2
        assert result.stderr == "memplace: Another run writes into o; wait for it, or pass another --out.\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["run.json", "checkpoint.pt", "policy.pt", "plan.json", "history.json"])
def test_without_room_nothing_is_half_written(
    run: Run, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Once there is room again the run goes on to the end that it would have had."""
    real = files._opened

    def full(path: Path, like: Path) -> int:
        if path.name == f".{name}.new":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return real(path, like)

    train = ("train", "egrl", MODEL, "--out", "o", *SMALL, "--budget", 40, "--resume")
    with monkeypatch.context() as patched:
        patched.setattr(files, "_opened", full)
        result = run(*train)
    assert result.exit_code == 2
    assert "No space left on device" in result.stderr
    assert list(tmp_path.rglob("*.new")) == []
    assert not (tmp_path / "o" / "seed-0" / "history.json").exists()
    assert run(*train).exit_code == 0
    for same in ("policy.pt", "plan.json"):
        assert (tmp_path / "o" / "seed-0" / same).read_bytes() == (trained / "seed-0" / same).read_bytes()


def test_resume(run: Run, parsed: Callable[..., Any], trained: Path) -> None:
    """Finished seeds stay as they are, a larger budget goes on with them, another run is no run to go on with."""
    again = ("train", "egrl", MODEL, "--out", trained, *SMALL)
    refused = run(*again, "--budget", 40)
    assert refused.exit_code == 2
    assert "--resume" in refused.stderr
    other = run(*again, "--budget", 40, "--resume", "--set", "depth=2")
    assert other.exit_code == 2
    assert "other config" in other.stderr
    before = (trained / "seed-0" / "checkpoint.pt").stat().st_mtime_ns
    parsed(*again, "--budget", 40, "--resume")
    assert (trained / "seed-0" / "checkpoint.pt").stat().st_mtime_ns == before
    more = parsed(*again, "--budget", 60, "--resume", "--seeds", 2)
    assert [item["seed"] for item in more["runs"]] == [0, 1]
    assert [item["workloads"][0]["evaluations"] for item in more["runs"]] == [60, 60]


def test_a_folder_of_something_else_is_left_alone(run: Run, tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "notes.txt").write_text("mine")
    for flag in ((), ("--resume",)):
        result = run("train", "egrl", MODEL, "--out", "o", *flag)
        assert result.exit_code == 2
        assert result.stderr.count("\n") == 1
    assert [path.name for path in (tmp_path / "o").iterdir()] == ["notes.txt"]


def test_one_policy_for_several_workloads(parsed: Callable[..., Any], tmp_path: Path) -> None:
    values = parsed("train", "egrl", MODEL, OTHER, "--budget", 20, *SMALL, "--out", "o")
    ((first, second),) = [item["workloads"] for item in values["runs"]]
    assert (first["workload"], second["workload"]) == (MODEL, OTHER)
    plans = {MemoryPlan.load(tmp_path / "o" / "seed-0" / item["plan"]).program for item in (first, second)}
    assert len(plans) == 2


def test_policies_load_in_solve(parsed: Callable[..., Any], trained: Path) -> None:
    """Also those of one workload for another."""
    for model in (MODEL, OTHER):
        policy = ("--agent", "egrl", "--policy", trained / "seed-0" / "policy.pt")
        found = parsed("solve", model, *policy, "--budget", 1)["stage_results"][0]
        assert (found["name"], found["evaluations"]) == ("egrl", 1)


@pytest.mark.parametrize("formulation", ["one-shot", "game"])
def test_plan_gradient(run: Run, parsed: Callable[..., Any], formulation: str) -> None:
    """Training works in both formulations, goes on with a bigger budget, and its policies load."""
    train = (
        "train",
        "plan-gradient",
        GAME if formulation == "game" else MODEL,
        "--formulation",
        formulation,
        "--out",
        "o",
    )
    first = parsed(*train, "--budget", 16)["runs"][0]
    both = parsed(*train, "--budget", 16, "--resume", "--seeds", 2)["runs"]
    assert both[0] == first
    more = parsed(*train, "--budget", 48, "--resume")["runs"][0]
    assert more["workloads"][0]["evaluations"] == 48
    flags = ("--formulation", formulation, "--agent", "plan-gradient", "--policy", first["policy"], "--budget", 16)
    assert "plan-gradient" in [
        stage_result["name"] for stage_result in parsed("solve", train[2], *flags)["stage_results"]
    ]


def test_muzero(run: Run, parsed: Callable[..., Any], tmp_path: Path) -> None:
    """Training resumes with a bigger budget, a policy plays several programs, that of another agent is refused."""
    small = ("--set", "games=4", "--set", "decisions=8", "--set", "annealing=0.2", "--set", "hidden=16")
    other = GAME.replace("seed=1", "seed=2")
    train = ("train", "muzero", GAME, other, "--formulation", "game", *small, "--out", "o")
    parsed(*train, "--budget", 9)
    trained = parsed(*train, "--budget", 14, "--resume")["runs"][0]
    assert [workload["evaluations"] for workload in trained["workloads"]] == [14, 14]
    solve = ("solve", GAME, "--formulation", "game", "--agent", "muzero", "--budget", 6, "--policy")
    assert "muzero" in [stage_result["name"] for stage_result in parsed(*solve, trained["policy"])["stage_results"]]
    PlanGradient(out=tmp_path / "other").solve(MallocGameEnv(GAME, "tpu-v4i"), budget=8)
    refused = run(*solve, "other/policy.pt")
    assert refused.exit_code == 2
    assert refused.stderr.count("\n") == 1


def test_programs_that_are_drawn(parsed: Callable[..., Any]) -> None:
    small = ("--set", "games=2", "--set", "decisions=16", "--set", "hidden=8")
    for agent, settings in {"muzero": small, "ppo": ()}.items():
        train = ("train", agent, "MallocGame-Synthetic-v0", *settings, "--budget", 12, "--out", agent)
        assert parsed(*train)["runs"][0]["workloads"][0]["evaluations"] == 12


class _Malicious:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path("harm").write_text, ("done",)


def test_a_strangers_policy_runs_no_code(run: Run, tmp_path: Path) -> None:
    (tmp_path / "policy.pt").write_bytes(pickle.dumps({"format": "memplace", "content": _Malicious()}))
    result = run("solve", MODEL, "--agent", "egrl", "--policy", "policy.pt")
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["policy.pt"]


@dataclass(frozen=True)
class _Settings:
    count: int = 1
    rate: float = 1.0
    on: bool = True
    name: str = "a"
    shape: tuple[int, ...] = ()


@given(st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.text())
def test_settings_mean_what_is_typed(count: int, rate: float, on: bool, name: str) -> None:
    typed = [f"count={count}", f"rate={rate}", f"on={on}", f"name={name}"]
    assert configured("x", {"d": _Settings()}, "d", typed) == _Settings(count, rate, on, name)


@given(st.sampled_from(["count", "rate", "on", "shape"]), st.sampled_from(["", "x", "nan", "inf", "1e999", "1,2"]))
def test_settings_of_another_type(field: str, text: str) -> None:
    with pytest.raises(AgentError, match=f"--set {field}="):
        configured("x", {"d": _Settings()}, "d", [f"{field}={text}"])


@pytest.mark.parametrize("settings", [["count"], ["=1"], ["count=1", "count=2"]])
def test_malformed_settings(settings: list[str]) -> None:
    with pytest.raises(AgentError):
        configured("x", {"d": _Settings()}, "d", settings)


def test_egrl_configs() -> None:
    """The ablations differ from the paper's method in one field each."""
    configs = agent_spec("egrl").named_settings
    assert (configs["default"], configs["paper"]) == (EGRLConfig(), EGRLConfig.paper())
    for name in ("paper-ea", "paper-pg", "paper-no-boltzmann"):
        changed = [key for key, value in vars(configs[name]).items() if value != getattr(configs["paper"], key)]
        assert len(changed) == 1


def test_missing_packages(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The default does without; who asks for an agent that needs them gets one sentence."""
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    assert run("solve", MODEL).exit_code == 0
    result = run("solve", MODEL, "--agent", "egrl", "--out", "asked")
    assert result.exit_code == 2
    assert 'tensorboard: pip install "memplace[agents]"' in result.stderr
    assert run("train", "egrl", MODEL, "--out", "asked").exit_code == 2
    assert run("agents").exit_code == 0
    assert not (tmp_path / "asked").exists()


def test_learners_are_listed(run: Run, parsed: Callable[..., Any]) -> None:
    learners = {name for name, spec in agent_specs().items() if spec.learns}
    assert learners <= {row["name"] for row in parsed("agents")}
    assert all(name in run("train", "--help").stdout for name in learners)


def test_interrupt_says_how_to_go_on(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memplace", "train", "egrl", MODEL, *SMALL, "--out", "o"]
    checkpoint = tmp_path / "o" / "seed-0" / "checkpoint.pt"
    with started([*command, "--budget", "1000000"], tmp_path, checkpoint) as run:
        run.send_signal(signal.SIGINT)
        _, stderr = run.communicate(timeout=patience(30))
    assert run.returncode == 130
    assert "o/seed-0/checkpoint.pt; the same command with --resume goes on" in stderr
    assert "Traceback" not in stderr


def test_ids_in_steps_are_trained_as_the_one_shot_problem(parsed: Callable[..., Any]) -> None:
    found = [
        parsed("train", "plan-gradient", f"{prefix}-Tiny-v0", "--budget", 40, "--out", prefix)["runs"][0]["workloads"][
            0
        ]
        for prefix in ("MemPlaceSteps", "MemPlace")
    ]
    assert found[0]["latency_s"] == found[1]["latency_s"]
