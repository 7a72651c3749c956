"""`memplace calibrate --from` and `memplace solve --machine`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import MODEL, OTHER, Run
from tests.source import ROOT

MACHINE = "nnp-i-machine.json"


@pytest.fixture
def rows(saved: Path, tmp_path: Path) -> Path:
    """Three measurements of two programs, one of them of a saved plan."""
    path = tmp_path / "measured.csv"
    path.write_text(f"model,latency_ms,plan\n{MODEL},0.02,{saved}\n{MODEL},0.03,\n{OTHER},0.05,\n")
    return path


def test_a_machine_from_measured_plans_begins_a_search(parsed: Callable[..., Any], run: Run, rows: Path) -> None:
    found = parsed("calibrate", "--from", rows, "--noise", 0.05)
    assert (found["chip"], found["written"]) == ("nnp-i", MACHINE)
    assert [program["measurements"] for program in found["programs"]] == [2, 1]
    deviations = [factor["sigma"] for factor in found["factors"].values()]
    assert deviations == sorted(deviations)
    assert 0 < deviations[0] < 0.3
    arguments = ("solve", MODEL, "--noise", 0.05, "--budget", 6, "--bound", 0)
    solved = parsed(*arguments, "--agent", "calibrated", "--machine", MACHINE)
    assert solved["evaluations"] == 6
    shown = run("calibrate", "--from", rows, "--from", rows, "--force")
    assert "Machine of nnp-i" in shown.stdout
    assert "6 measurements of 2 programs" in " ".join(shown.stdout.split())
    for arguments, named in (
        (("solve", MODEL, "--agent", "exact", "--machine", MACHINE), "it takes no --machine; these do: calibrated."),
        (("solve", MODEL, "--agent", "calibrated", "--machine", rows), "Cannot read the machine model"),
        (("solve", MODEL, "-a", "edge-tpu", "--agent", "calibrated", "--machine", MACHINE), "for the chip nnp-i"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert named in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--from", "no.csv"], "no.csv: it cannot be read"),
        (["--from", ROOT / "docs"], "docs: it cannot be read"),
        (["--from", "m.csv", "--fit", "DRAM.efficiency"], "--fit cannot go with --from"),
        (["m.csv", "--noise", 0.1], "--noise cannot go with"),
        (["m.csv", "--from", "m.csv"], "Pass either"),
    ],
)
def test_one_sentence_and_nothing_written(run: Run, tmp_path: Path, arguments: list[Any], named: str) -> None:
    result = run("calibrate", *arguments)
    assert result.exit_code == 2
    assert named in " ".join(result.stderr.split())
    assert list(tmp_path.iterdir()) == []
