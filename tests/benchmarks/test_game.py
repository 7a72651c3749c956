"""The table of games has every solver, and the range over seeds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import memplace_agents
from benchmarks import game
from benchmarks.ledger import Ledger
from memplace_agents.base import Agent
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.game_local_search import GameLocalSearch
from memplace_agents.solution import Verdict
from memplace_env.envs.registration import GAME, Formulation

QUICK = "ResNet50-intel-npu-4000"


class Prover(Agent[GameEvaluator]):
    """A stand-in for the exact agent: it anneals for a while, and gives a bound 1 % below its best plan."""

    name = "exact"
    formulations = (Formulation.GAME,)

    def __init__(
        self, mip_gap: float | None = None, cheap: bool = True, tie_break: str = "backing", work: float | None = None
    ) -> None:
        self.mip_gap, self.cheap, self.tie_break, self.work = mip_gap, cheap, tie_break, work

    def run(self, evaluator: GameEvaluator, seed: int) -> Verdict:
        GameLocalSearch().run(evaluator.part(1e-6), seed)
        return Verdict(bound_s=0.99 * evaluator.incumbent_latency_s)


@pytest.fixture(autouse=True)
def _proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the exact agent by the stand-in."""
    monkeypatch.setattr("memplace_agents.exact.Exact", Prover)
    make = memplace_agents.make_agent
    monkeypatch.setattr(
        memplace_agents, "make_agent", lambda name: Prover() if name == "exact" else make(name), raising=False
    )


def test_the_table_has_every_solver_and_the_range(tmp_path: Path) -> None:
    runs = game.runs([QUICK, "MatMul-strassen2"], 0.05, 0.1, 2)
    assert {run["solver"] for run in runs} == {*game.SOLVERS}
    with ThreadPoolExecutor(1) as pool:
        records = Ledger(tmp_path / "game.jsonl", game.FIELDS).complete(runs, game.measure, pool)
    random = [record for record in records if (record["solver"], record["name"]) == ("portfolio", QUICK)]
    assert [record["seed"] for record in random] == [0, 1]
    random[1]["latency_s"] = random[0]["latency_s"] / 2
    head, _, *rows = game.table(records).splitlines()
    assert [row.split(" | ")[0] for row in rows] == [f"| {QUICK}", "| MatMul-strassen2"]
    assert all(row.count("|") == head.count("|") for row in rows)
    assert "–" in rows[0]


def test_the_default_games_are_registered() -> None:
    assert len(game.quick_games()) == 4
    assert set(game.quick_games()) <= set(GAME)
