"""`memplace simulate`, `validate` and `compare`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplace_env.machine.accelerator.load import find
from tests.cli.conftest import MODEL, OTHER, Run


@pytest.fixture
def broken(saved: Path, tmp_path: Path) -> Path:
    """The saved plan without its first two blocks."""
    document = json.loads(saved.read_text())
    document["allocations"] = document["allocations"][2:]
    path = tmp_path / "broken.json"
    path.write_text(json.dumps(document))
    return path


def test_simulate(run: Run, parsed: Callable[..., Any], saved: Path) -> None:
    result = run("simulate", MODEL, saved)
    assert result.exit_code == 0
    assert "this plan" in result.stdout
    values = parsed("simulate", MODEL, saved)
    assert {"workload", "accelerator", "plan", "speedup", "native_latency_s", "report", "bottlenecks"} == values.keys()
    assert values["speedup"] == pytest.approx(values["native_latency_s"] / values["report"]["latency_s"])


def test_no_model_is_needed(run: Run, parsed: Callable[..., Any], saved: Path, tmp_path: Path) -> None:
    """No model is needed if the plan names a program of the zoo, or a synthetic one, and a shipped chip."""
    for command in (["simulate"], ["validate"], ["compare"], ["explain"], ["export", "--out", "x.h"]):
        short, full = run(*command, saved, "--json"), run(*command, MODEL, saved, "--json")
        assert short.exit_code == 0, short.stderr
        assert json.loads(short.stdout).keys() == json.loads(full.stdout).keys()
    assert len(parsed("compare", saved, saved)["plans"]) == 2
    game = ("AlexNet", "--formulation", "game", "--agent", "greedy-player", "--bound", 0, "--out", "game")
    assert run("solve", *game).exit_code == 0
    assert "is valid" in run("validate", "game/plan.json").stdout
    assert "1 frame" in run("render", "game/plan.json", "--out", "game.png").stdout


@pytest.mark.parametrize("command", ["simulate", "validate", "compare", "explain", "execute", "export"])
def test_a_model_that_is_a_file_must_be_passed(run: Run, saved: Path, tmp_path: Path, command: str) -> None:
    document = json.loads(saved.read_text()) | {"program": "mine", "settings": {"workload": "mine.onnx"}}
    (tmp_path / "plan.json").write_text(json.dumps(document))
    (tmp_path / "mine.onnx").write_bytes(b"never read")
    more = ("--out", "x") if command == "export" else ()
    result = run(command, "plan.json", *more)
    assert result.exit_code == 2
    assert result.stderr == (
        "memplace: plan.json is a plan for 'mine.onnx', which is not in the zoo, and no file is opened because a plan "
        "names it; pass the model before the plan: MODEL plan.json.\n"
    )
    (tmp_path / "own.json").write_text(json.dumps(document | {"accelerator": "mine.toml"}))
    assert run(command, "own.json", *more).stderr.endswith(": MODEL own.json --accelerator CHIP.toml.\n")
    chip_given = run(command, "own.json", "--accelerator", "mine.toml", *more)
    assert chip_given.stderr.endswith(": MODEL own.json.\n")
    without = run(command, "BERT", *more)
    assert without.stderr == (
        "memplace: There is no plan 'BERT'; pass the path of a plan.json, after its model if it needs one.\n"
    )
    assert "'net.tflite' is a model; pass the path of its plan.json after" in run(command, "net.tflite", *more).stderr
    if command != "compare":
        assert "not 3 arguments" in run(command, "a", "b", "c", *more).stderr


def test_validate(run: Run, parsed: Callable[..., Any], saved: Path) -> None:
    assert "is valid" in run("validate", MODEL, saved).stdout
    assert parsed("validate", MODEL, saved) == {"plan": str(saved), "valid": True, "violations": []}


def test_validate_lists_every_violation(run: Run, broken: Path) -> None:
    result = run("validate", MODEL, broken, "--json")
    assert result.exit_code == 1
    violations = json.loads(result.stdout)["violations"]
    assert len(violations) >= 2
    text = run("validate", MODEL, broken)
    assert text.exit_code == 1
    assert all(violation["message"] in text.stdout for violation in violations)


def test_validate_against_another_program(run: Run, saved: Path) -> None:
    result = run("validate", OTHER, saved)
    assert result.exit_code == 1
    assert "made for another program" in result.stdout


@pytest.mark.parametrize("command", ["simulate", "compare"])
def test_plans_of_another_program_are_no_input(run: Run, saved: Path, command: str) -> None:
    result = run(command, OTHER, saved)
    assert result.exit_code == 2
    assert "made for another program" in result.stderr
    assert "Traceback" not in result.output
    assert "(and 1 more violation)" in run(command, OTHER, saved, "-a", "tpu-v4i").stderr


def test_invalid_plans_are_not_timed(run: Run, broken: Path) -> None:
    result = run("simulate", MODEL, broken)
    assert result.exit_code == 2
    assert "The plan cannot run" in result.stderr


def test_compare(run: Run, parsed: Callable[..., Any], saved: Path) -> None:
    assert "The plans are equal." in run("compare", MODEL, saved, saved).stdout
    assert parsed("compare", MODEL, saved, saved)["equal"]
    values = parsed("compare", MODEL, saved)
    assert parsed("compare", MODEL, saved, "native") == values
    assert all(len(one["times_s"]) == 3 for one in parsed("compare", MODEL, saved, "native", saved)["differences"])
    assert {"native", "plans", "equal", "differences", "routes", "picture"} == values.keys()
    assert not values["equal"]
    assert [plan["plan"] for plan in values["plans"]] == [str(saved)]
    assert all(len(difference["times_s"]) == 2 for difference in values["differences"])
    assert "Where they differ most" in run("compare", MODEL, saved).stdout


def test_compare_draws(run: Run, saved: Path, tmp_path: Path) -> None:
    """One plan against native, or the first two of several."""
    for plans in ([saved], [saved, saved]):
        picture = tmp_path / str(len(plans)) / "two.png"
        assert f"Written: {picture}" in run("compare", MODEL, *plans, "--out", picture).stdout
        assert picture.read_bytes().startswith(b"\x89PNG")
    refused = run("compare", MODEL, saved, "--out", tmp_path / "two.jpg")
    assert refused.exit_code == 2
    assert "end it in .png" in refused.stderr


def test_plans_in_another_order_or_place_are_not_compared(run: Run, saved: Path, tmp_path: Path) -> None:
    """One sentence names both plans and what differs; each alone is compared with native."""
    for name, flags in {"order": ("--order", "memory"), "place": ("--in-place", "rows")}.items():
        made = run("solve", "NeRF", "-a", "tpu-v4i", *flags, "--agent", "native", "--bound", "0", "--out", name)
        assert made.exit_code == 0, made.stderr
        assert run("compare", tmp_path / name / "plan.json").exit_code == 0
    both = [tmp_path / name / "plan.json" for name in ("order", "place")]
    refused = run("compare", *both)
    assert refused.exit_code == 2
    said = " ".join(refused.stderr.split())
    assert f"{both[0]} and {both[1]} do not have the same order of ops and the same results in place, so" in said
    assert "was made for another program" in run("compare", MODEL, saved, both[0]).stderr


def test_settings_come_from_the_plan(run: Run, tmp_path: Path) -> None:
    """A plan says how its program was built, so nothing has to be repeated."""
    made = run("solve", "AlexNet", "--batch", 3, "-a", "tpu-v4i", "--agent", "random", "--budget", 8, "--out", "o")
    assert made.exit_code == 0, made.stderr
    assert run("validate", "AlexNet", tmp_path / "o" / "plan.json").exit_code == 0


def test_settings_of_an_odd_kind(run: Run, saved: Path, tmp_path: Path) -> None:
    document = json.loads(saved.read_text()) | {"settings": {"dims": [1]}}
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(document))
    result = run("simulate", MODEL, path)
    assert result.exit_code == 2
    assert "'dims'" in result.stderr


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"accelerator": "/dev/zero", "workload": "/dev/zero"}},
        {"settings": {"accelerator": "mine.toml"}},
        {"settings": {}, "accelerator": "mine.toml"},
        {"settings": {"accelerator": "nnp-i-streamed-streamed"}},
    ],
)
def test_no_file_is_opened_because_a_plan_names_it(run: Run, saved: Path, tmp_path: Path, changes: Any) -> None:
    (tmp_path / "mine.toml").write_bytes(find("nnp-i").read_bytes())
    (tmp_path / "strange.json").write_text(json.dumps(json.loads(saved.read_text()) | changes))
    result = run("validate", MODEL, "strange.json")
    assert result.exit_code == 2
    assert "no file is opened because a plan names it; pass it yourself with --accelerator" in result.stderr
    assert run("validate", MODEL, "strange.json", "-a", "mine.toml").exit_code == 0


@pytest.mark.parametrize("settings", [{"batch": True}, {"dims": {"a": "b"}}, {"dims": {"a": None}}, {"batch": "3"}])
def test_sizes_that_are_none(run: Run, saved: Path, tmp_path: Path, settings: Any) -> None:
    (tmp_path / "odd.json").write_text(json.dumps(json.loads(saved.read_text()) | {"settings": settings}))
    result = run("simulate", MODEL, "odd.json")
    assert result.exit_code == 2
    assert "The plan's" in result.stderr


def test_a_plan_of_another_model_is_named_before_its_dims(run: Run, saved: Path, tmp_path: Path) -> None:
    """The settings of BERT's plan do not fit AlexNet, which is not what is wrong."""
    settings = {"workload": "BERT", "dims": {"sequence": 384}, "dtype": "int8"}
    document = json.loads(saved.read_text()) | {"program": "BERT", "settings": settings}
    (tmp_path / "bert.json").write_text(json.dumps(document))
    for command in (["simulate"], ["validate"], ["compare"], ["explain"]):
        refused = run(*command, "AlexNet", "bert.json")
        assert refused.exit_code == 2
        assert refused.stderr.startswith("memplace: bert.json was made for another program, 'BERT', ")
    refused = run("render", "AlexNet", "bert.json", "--out", "x.png")
    assert refused.stderr.startswith("memplace: bert.json was made for another program, 'BERT', ")
    assert "There is no workload 'AlxNet'" in run("simulate", "AlxNet", "bert.json").stderr
