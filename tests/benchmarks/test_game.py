"""The benchmarks of games: what is measured goes into a file once, and settings are chosen by the rule."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import agents
from agents.base import Agent
from agents.evaluator import GameEvaluator
from agents.game import GameLocalSearch
from agents.solution import Verdict
from benchmarks import game, game_grid, game_replay
from benchmarks.ledger import Ledger, Record
from memplace_env.accelerator import load_accelerator
from memplace_env.registration import GAME, Formulation

QUICK = "ResNet50-intel-npu-4000"
ALEXNET: Record = {"workload": "AlexNet", "accelerator": "tpu-v4i", "batch": 4, "dtype": "int8"}


class Prover(Agent[GameEvaluator]):
    """Plays the exact agent: anneals for a while, and proves a hundredth less than what that gives."""

    name = "exact"
    formulations = (Formulation.GAME,)
    below = 0.01

    def __init__(self, mip_gap: float | None = None, cheap: bool = True) -> None:
        self.mip_gap, self.cheap = mip_gap, cheap

    def run(self, evaluator: GameEvaluator, seed: int) -> Verdict:
        GameLocalSearch().run(evaluator.part(1e-6), seed)
        return Verdict(bound_s=(1 - self.below) * evaluator.incumbent_latency_s)


@pytest.fixture
def proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the exact agent were this one."""
    monkeypatch.setattr("agents.exact.Exact", Prover)
    make = agents.make_agent
    monkeypatch.setattr(agents, "make_agent", lambda name: Prover() if name == "exact" else make(name), raising=False)


def double(setting: Record) -> Record:
    return {**setting, "double": 2 * setting["number"]}


def test_what_is_on_file_is_not_measured_again(tmp_path: Path) -> None:
    path, settings = tmp_path / "runs.jsonl", [{"number": number} for number in range(5)]
    with ThreadPoolExecutor(1) as pool:
        first = Ledger(path, ["number", "dims"]).complete(settings[3:], double, pool)
        assert [record["double"] for record in first] == [6, 8]
        measured: list[int] = []

        def noted(setting: Record) -> Record:
            measured.append(setting["number"])
            return double(setting)

        others = [*settings, {"number": 1, "dims": {"sequence": 2}}]
        records = Ledger(path, ["number", "dims"]).complete(others, noted, pool)
    assert sorted(measured) == [0, 1, 1, 2]
    assert [record["double"] for record in records] == [0, 2, 4, 6, 8, 2]
    assert Ledger(path, ["number", "dims"]).of(others) == records
    assert len(path.read_text().splitlines()) == 6


def test_a_log_that_one_process_adds_to(tmp_path: Path) -> None:
    path, settings = tmp_path / "runs.jsonl", [{"number": number} for number in range(3)]
    ledger = Ledger(path, ["number"])
    assert ledger.missing(settings) == settings
    ledger.add({"number": 1, "double": None})
    assert Ledger(path, ["number"]).missing(settings) == [settings[0], settings[2]]
    assert ledger.missing(settings, lambda record: record["double"] is not None) == settings
    ledger.add({"number": 1, "double": 2})
    assert Ledger(path, ["number"]).of(settings) == [{"number": 1, "double": 2}]


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    path, settings = tmp_path / "runs.jsonl", [{"number": number} for number in range(50)]

    def fails(setting: Record) -> Record:
        if setting["number"] == 0:
            return double(setting)
        while not path.exists():
            time.sleep(0.001)
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as pool, pytest.raises(KeyboardInterrupt):
        Ledger(path, ["number"]).complete(settings, fails, pool)
    assert [json.loads(line) for line in path.read_text().splitlines()] == [{"number": 0, "double": 0}]


def test_the_grid_has_every_program_on_every_chip_with_two_levels() -> None:
    settings = game_grid.grid()
    assert len({json.dumps(setting) for setting in settings}) == len(settings)
    assert {setting["accelerator"] for setting in settings} == set(game_grid.chips())
    assert all(load_accelerator(chip).num_levels == 2 for chip in game_grid.chips())
    assert ALEXNET in settings


@pytest.mark.usefixtures("proven")
def test_headroom_is_over_the_best_cheap_player() -> None:
    record = json.loads(json.dumps(game_grid.measure({"workload": "ResNet50", **GAME[QUICK]}, 5.0)))
    assert record["plan_s"] <= record["cheap_s"]
    assert game_grid.gap(record) == pytest.approx(1 / 0.99 - 1)
    assert game_grid.headroom(record) == 0  # not proven well enough
    assert "–" in game_grid.table([record])
    record["bound_s"] = record["plan_s"]
    assert game_grid.headroom(record) == record["cheap_s"] / record["plan_s"]


@pytest.mark.usefixtures("proven")
def test_what_cannot_be_chosen_is_not_proven_and_what_does_not_fit_is_recorded() -> None:
    hopeless = game_grid.measure({**ALEXNET, "batch": 16, "dtype": "bfloat16"}, 5.0)
    assert "plan_s" not in hopeless
    assert game_grid.headroom(hopeless) == 0
    refused = game_grid.measure({**ALEXNET, "batch": 10**6}, 5.0)
    assert "GiB" in refused["refused"] or "fit" in refused["refused"]
    summary = game_grid.summary([hopeless, refused])
    assert summary.startswith("Of 2 settings 1 are refused")
    assert game_grid.table([hopeless, refused]).count("\n") == 2


def record(workload: str, chip: str, batch: int, cheap_s: float, gap: float = 0.0, **others: Any) -> Record:
    setting = {"workload": workload, "accelerator": chip, "batch": batch, "dtype": "int8", **others}
    return {**setting, "cheap_s": cheap_s, "plan_s": 1.0, "bound_s": 1 / (1 + gap)}


def test_the_rule() -> None:
    records = [
        record("BERT", "tpu-v4i", 16, 1.05, dims={"sequence": 128}),
        record("BERT", "tpu-v4i", 4, 1.04),
        record("BERT", "tpu-v4i", 64, 1.50, gap=0.02),
        record("ViT", "tpu-v4i", 4, 1.029),
        record("ViT", "edge-tpu", 4, 1.06),
        record("ViT", "edge-tpu", 2, 1.06),
        record("ViT", "edge-tpu", 2, 1.06, dims={}),
        record("AlexNet", "ethos-u65", 1, 1.03),
        {"workload": "AlexNet", "accelerator": "tpu-v4i", "batch": 4, "dtype": "int8", "refused": "too large"},
        {"workload": "AlexNet", "accelerator": "tpu-v4i", "batch": 8, "dtype": "int8", "cheap_s": 1.0},
    ]
    assert game_grid.choose(records) == [records[0], records[5], records[7]]


@pytest.mark.usefixtures("proven")
def test_the_table_has_every_solver_and_says_the_range(tmp_path: Path) -> None:
    runs = game.runs([QUICK, "MatMul-strassen2"], 0.05, 0.1, 2)
    assert {run["solver"] for run in runs} == {*game.COLUMNS, "exact"}
    with ThreadPoolExecutor(1) as pool:
        records = Ledger(tmp_path / "game.jsonl", game.FIELDS).complete(runs, game.measure, pool)
    random = [record for record in records if (record["solver"], record["name"]) == ("portfolio", QUICK)]
    assert [record["seed"] for record in random] == [0, 1]
    random[1]["latency_s"] = random[0]["latency_s"] / 2
    head, _, *rows = game.table(records).splitlines()
    assert [row.split(" | ")[0] for row in rows] == [f"| {QUICK}", "| MatMul-strassen2"]
    assert all(row.count("|") == head.count("|") for row in rows)
    assert "–" in rows[0]  # the range
    assert "1.010%" in rows[0]  # the gap
    assert set(GAME) >= {QUICK, "MatMul-strassen2"}


def test_a_replay_loses_what_it_says_and_the_search_begins_there() -> None:
    run = {"name": "AlexNet", **ALEXNET, "seconds": 20.0, "games": 50}
    record = json.loads(json.dumps(game_replay.measure(run)))
    assert record["bound_s"] <= record["plan_s"]
    assert record["bound_s"] <= record["searched_s"] <= record["replayed_s"]
    head, _, row = game_replay.table([record | {"plan_s": 1.0, "replayed_s": 1.25, "searched_s": 1.125}]).splitlines()
    assert row.count("|") == head.count("|")
    assert "loss after 50 games" in head
    assert row.endswith("| 25.000% | 12.500% |")
