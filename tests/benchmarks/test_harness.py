"""The harness: tables from columns, records that are measured once, and pages that are compared with their records."""

from __future__ import annotations

import lzma
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

import pytest

from benchmarks import __main__ as command
from benchmarks import harness
from benchmarks.experiments import event, execution, suite
from benchmarks.harness import Experiment, Records, data, field, table
from benchmarks.ledger import Record
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.resolve_task import resolve_task

EVERY = command.all_experiments()
MINUTES = ("best-known", "leaderboard")
"""Experiments that take minutes to show: they play the rules on all registered ids, or replay plans of them."""
PAGE = "before\n<!-- rows:begin -->\nold\n<!-- rows:end -->\nafter\n"


def square(run: Record) -> Record:
    return {**run, "square": run["number"] ** 2}


def settings(records: Records) -> list[Record]:
    """The last setting follows from the records of the others."""
    first: list[Record] = [{"number": number} for number in range(3)]
    return [*first, {"number": sum(record["square"] for record in records if record["number"] < 3)}]


@pytest.fixture
def squares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Experiment:
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    monkeypatch.setattr(harness, "RECORDS", tmp_path)
    monkeypatch.setattr(harness, "single_cores", ThreadPoolExecutor)
    (tmp_path / "page.md").write_text(PAGE)
    columns = {"number": itemgetter("number"), "ms": field("square", ".1f", 1e3, " ms"), "ms ": field("none")}
    pages = {"page.md#rows": table(columns, below=lambda records: f"{len(records)}"), "all.csv": data(columns)}
    return Experiment("squares", "Squares.", pages, settings, square, key=("number",))


def test_what_is_missing_is_measured_and_packed(squares: Experiment, tmp_path: Path) -> None:
    assert squares.recorded() == []
    assert [record["square"] for record in squares.run(1, ["2"])] == [4]
    assert [record["square"] for record in squares.run(2)] == [0, 1, 4, 25]
    lines = lzma.decompress((tmp_path / "squares.jsonl.xz").read_bytes()).splitlines()
    assert len(lines) == 5, "each once, and the last also while the others were missing"
    assert not (tmp_path / "squares.jsonl").exists()
    assert squares.recorded() == squares.run(1)


@pytest.mark.parametrize("name", ["suite", "many-programs", "event"])
def test_ids_and_splits_stay(name: str) -> None:
    """A run by hand measures nothing, so it neither adds an id nor changes what a split draws."""
    assert EVERY[name].left() == (0, 0.0)


def test_the_best_plan_found_may_be_a_kept_one() -> None:
    """An id stays where later searches end above the plan that was kept of it."""
    case = event.Case(Formulation.ONE_SHOT, f"ResNet50-{event.NPU}{event.BATCH_1}")
    kept_s, found = event.kept_s(case), [{"solver": "native", "latency_s": 1.0}]
    assert event.Results(case, {"native": found}, kept_s).best == {"solver": event.KEPT, "latency_s": kept_s}
    assert event.Results(case, {"native": found}, 1.0).best is found[0]
    assert event.kept_s(case._replace(name=f"ResNet50-{event.NPU}")) == math.inf, "it is of the id's own batch"


def test_each_formulation_of_an_agent_is_executed() -> None:
    formulations = {record["formulation"] for record in execution.settings()}
    assert formulations <= execution.CHIPS.keys() == execution.IDS.keys()


def test_hours_are_those_of_what_is_missing(squares: Experiment) -> None:
    assert squares.left() == (4, 0.0)
    timed = replace(squares, measure=lambda run: square(run) | {"took_s": 1800.0})
    timed.run(1, ["2"])
    assert timed.left() == (3, 1.5)


def test_batches_of_a_game_contend_for_fast_memory() -> None:
    game = {"formulation": Formulation.GAME, "workload": "AlexNet", "accelerator": "edge-tpu"}
    capacity = load_accelerator("edge-tpu").levels[0].capacity_bytes
    for batch, times in zip(suite.contended(game, "int8", {}), suite.CONTENTION, strict=True):
        alive = resolve_task("AlexNet", "edge-tpu", batch=batch, dtype="int8").program.live_bytes.max()
        assert 2**-0.5 <= alive / (times * capacity) <= 2**0.5, "the nearest power of two"


def test_pages_are_compared_and_written(squares: Experiment, tmp_path: Path) -> None:
    records = squares.run(1)
    assert {"-old", "+| number | ms | ms |", "+2,4000.0 ms,"} <= set(squares.differences())
    squares.write(records)
    assert squares.differences() == []
    shown = "| number | ms | ms |\n| --- | --: | --: |\n| 0 | 0.0 ms |  |\n"
    assert (tmp_path / "page.md").read_text().startswith(f"before\n<!-- rows:begin -->\n{shown}")
    assert (tmp_path / "page.md").read_text().endswith("\n\n4\n<!-- rows:end -->\nafter\n")
    (tmp_path / "page.md").write_text("no markers")
    with pytest.raises(SystemExit, match="no markers"):
        squares.write(records)


def test_the_command_ends_with_differences(
    squares: Experiment, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "all_experiments", lambda: {"squares": squares})
    runs = {"list --missing": None, "check": "-old", "run squares --write": None, "check squares": None, "list": None}
    for words, end in runs.items():
        monkeypatch.setattr("sys.argv", ["benchmarks", *words.split()])
        try:
            command.main()
            ended = None
        except SystemExit as error:
            ended = error.code
        assert ended is None if end is None else end in str(ended)
    printed = capsys.readouterr().out
    assert "Squares." in printed
    assert "4 missing" in printed


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in MINUTES)) for name in sorted(EVERY)]
)
def test_pages_are_what_the_records_give(name: str) -> None:
    again = f"run: python -m benchmarks run {name} --recorded --write"
    assert EVERY[name].differences() == [], again
    for place, render in EVERY[name].pages.items():
        if place.startswith("docs/data/"):
            assert str(render(EVERY[name].recorded())).count("\n") > 1, place
