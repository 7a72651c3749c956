"""`memplace explain`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import MODEL, OTHER, Run

PNG = b"\x89PNG"


def test_tables_and_picture(run: Run, saved: Path, tmp_path: Path) -> None:
    result = run("explain", MODEL, saved)
    assert result.exit_code == 0, result.stderr
    for part in ("over native", "from native's level to the plan's", "Contiguity", "Time by op type", "Written: "):
        assert part in result.stdout
    folder = tmp_path / "out" / "synthetic-diamond-ops-9-seed-1-nnp-i"
    assert [path.name for path in folder.iterdir()] == ["explain.png"]
    assert (folder / "explain.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(("out", "file"), [("there", "there/explain.png"), ("a/b.PNG", "a/b.PNG")])
def test_out(parsed: Callable[..., Any], saved: Path, tmp_path: Path, out: str, file: str) -> None:
    assert parsed("explain", MODEL, saved, "--out", out)["picture"] == file
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / file]
    assert (tmp_path / file).read_bytes().startswith(PNG)


def test_json_agrees_with_simulate(parsed: Callable[..., Any], saved: Path) -> None:
    values = parsed("explain", MODEL, saved)
    keys = {"workload", "accelerator", "plan", "levels", "speedup", "native", "report", "weights", "activations"}
    keys |= {"saved_s", "tail_saved_s", "op_saved_s", "by_type", "gains", "losses", "in_place", "picture", "page"}
    keys |= {"simulator", "found_with"}
    assert values.keys() == keys
    timed = parsed("simulate", MODEL, saved)
    assert values["speedup"] == timed["speedup"]
    assert values["report"] == timed["report"]
    assert values["native"]["latency_s"] == timed["native_latency_s"]
    assert sum(values["op_saved_s"]) + values["tail_saved_s"] == pytest.approx(values["saved_s"], abs=1e-12)
    for kind in ("weights", "activations"):
        assert sum(map(sum, values[kind]["moved_bytes"])) == values[kind]["total_bytes"] > 0
        assert len(values[kind]["moved_bytes"]) == len(values["levels"])


def test_a_game(run: Run, parsed: Callable[..., Any], tmp_path: Path) -> None:
    model = f"{MODEL}&accelerator=tpu-v4i"
    played = run("solve", model, "--formulation", "game", "--agent", "greedy-player", "--out", "o")
    assert played.exit_code == 0, played.stderr
    values = parsed("explain", model, "o/plan.json", "--out", "o")
    assert values["levels"] == ["CMEM", "HBM"]
    assert [len(row) for row in values["activations"]["moved_bytes"]] == [2, 2]
    assert (tmp_path / "o" / "explain.png").exists()


def test_page(run: Run, parsed: Callable[..., Any], saved: Path, tmp_path: Path) -> None:
    """The page is beside native's plan, or with other plans, in other slices too."""
    assert parsed("explain", MODEL, saved, "--html", "a/plan.html")["page"] == "a/plan.html"
    page = (tmp_path / "a" / "plan.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert '"name":"native"' in page
    cut = run("solve", MODEL, "--slices", "0.1", "--agent", "native", "--bound", 0, "--out", "cut")
    assert cut.exit_code == 0, cut.stderr
    result = run("explain", MODEL, saved, "--html", "two.html", "--beside", "cut/plan.json")
    assert result.exit_code == 0, result.stderr
    assert "two.html" in result.stdout.splitlines()[-1]
    assert '"name":"cut/plan.json"' in (tmp_path / "two.html").read_text(encoding="utf-8")


def test_times_of_another_simulator(run: Run, parsed: Callable[..., Any], tmp_path: Path) -> None:
    """A plan says with which simulator it was found; whatever shows its times by another one says so."""
    solved = run("solve", MODEL, "--simulator", "event", "--agent", "native", "--bound", 0, "--out", "o")
    assert solved.exit_code == 0, solved.stderr
    line = "All times are by the simulator 'builtin'; o/plan.json was found with 'event'."
    assert line in run("explain", MODEL, "o/plan.json", "--html", "page.html").stdout
    assert line in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert line in run("compare", MODEL, "o/plan.json").stdout
    assert "All times are by" in run("simulate", MODEL, "o/plan.json").stdout
    values = parsed("explain", MODEL, "o/plan.json")
    assert (values["simulator"], values["found_with"]) == ("builtin", "event")
    result = run("explain", MODEL, "o/plan.json", "--simulator", "event")
    assert result.exit_code == 0
    assert "All times are by" not in result.stdout
    assert run("solve", MODEL, "--agent", "native", "--bound", 0, "--out", "b").exit_code == 0
    values = parsed("explain", MODEL, "b/plan.json", "--simulator", "event")
    assert (values["simulator"], values["found_with"]) == ("event", "builtin")


def test_without_matplotlib(run: Run, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables are still worth having; a stale picture does not stay."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    (tmp_path / "explain.png").write_bytes(b"old")
    result = run("explain", MODEL, saved, "--out", ".", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["picture"] is None
    assert 'pip install "memplace[viz]"' in result.stderr
    assert not list(tmp_path.iterdir())


def test_bad_input_leaves_nothing(run: Run, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, named in (
        ((OTHER, saved), "made for another program"),
        ((MODEL, "no.json"), "no.json"),
        ((MODEL, saved, "--out", "file"), "file"),
        ((MODEL, saved, "--out", "file/deep.png"), "file"),
        ((MODEL, saved, "--html", "page.txt"), "end it in .html"),
        ((MODEL, saved, "--html", "file/page.html"), "--html file cannot be a folder"),
        ((MODEL, saved, "--beside", saved), "pass --html FILE.html too"),
        ((MODEL, saved, "--html", "page.html", "--beside", "no.json"), "no.json"),
    ):
        result = run("explain", *arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert named in result.stderr
        assert "Traceback" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
