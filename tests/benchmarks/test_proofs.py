"""The campaign of proofs: bounds, and the plans that are kept."""

import copy
import tomllib
from dataclasses import replace

import pytest

from benchmarks import harness
from benchmarks.experiments import leaderboard, learning, proofs
from memplace_agents import make_agent
from memplace_env.envs.best_known import known_results
from memplace_env.placement.simulator import evaluate_plan
from memplace_leaderboard.pinned import task_of

GAME, MAP = "MallocGame-NeRF-edge-tpu-v0", "MemPlace-NeRF-v0"


def record(env_id, latency_ps, bound_ps, series=proofs.NOW):
    return {
        **{"id": env_id, "series": series, "seconds": 60, "latency_ps": latency_ps, "bound_ps": bound_ps},
        **{"took_s": 1.0, "commit": "a", "date": "b"},
    }


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Adds a record; there is none before, and no plan. Two ids are known."""
    campaigns = {env_id: known for env_id, known in leaderboard.campaigns().items() if env_id in (MAP, GAME)}
    monkeypatch.setattr(leaderboard, "campaigns", lambda: copy.deepcopy(campaigns))
    monkeypatch.setattr(harness, "RECORDS", tmp_path)
    monkeypatch.setattr(proofs, "PLANS", tmp_path / "plans.zip")
    return lambda record: proofs.PROOFS.open().add(record)


def test_the_highest_bound_of_todays_agent_counts(recorded):
    recorded(record(GAME, 150, 100))
    recorded(record(GAME, 150, 90) | {"seconds": 5})
    recorded(record(GAME, 150, 120, series="before"))
    assert proofs.bounds_ps() == {GAME: 100}
    recorded(record(GAME, 150, 105, series=proofs.IMPROVED))
    assert proofs.bounds_ps() == {GAME: 105}


def test_the_faster_plan_is_kept(recorded):
    task = task_of(MAP)
    slow, fast = (make_agent(name).solve(MAP) for name in ("native", "exact"))
    for solution in (slow, fast, slow):
        proofs.keep(MAP, solution.report.latency_ps, solution.plan)
    assert evaluate_plan(task, proofs.kept_plan(MAP)).latency_ps == fast.report.latency_ps < slow.report.latency_ps


def test_a_plan_of_another_program_is_not_kept(recorded):
    solution = make_agent("native").solve(MAP)
    proofs.keep(GAME, solution.report.latency_ps, solution.plan)
    assert proofs.kept_plan(GAME) is None


def test_a_kept_plan_of_an_older_program_is_replaced(recorded, monkeypatch):
    fast, slow = (make_agent(name).solve(MAP) for name in ("exact", "native"))
    proofs.keep(MAP, fast.report.latency_ps, fast.plan)
    older = replace(proofs.kept_plan(MAP), program_sha256="0" * 64)
    with monkeypatch.context() as for_now:
        for_now.setattr(proofs, "kept_plan", lambda env_id: older)
        proofs.keep(MAP, slow.report.latency_ps, slow.plan)
    assert evaluate_plan(task_of(MAP), proofs.kept_plan(MAP)).latency_ps == slow.report.latency_ps


def test_best_known_takes_bound_and_plan(recorded):
    known = known_results()[MAP]
    recorded(record(MAP, known.best_ps, known.bound_ps - 5))
    with pytest.raises(SystemExit, match="no plan in"):
        leaderboard.known(suites=())
    solution = make_agent("native").solve(MAP)
    proofs.keep(MAP, solution.report.latency_ps, solution.plan)
    row = tomllib.loads(leaderboard.known(suites=()))[MAP]
    assert row["bound_ps"] == known.bound_ps - 5
    assert row["best_ps"] < solution.report.latency_ps
    assert "reachable_ps" not in row
    recorded(record(MAP, known.best_ps, 2 * known.best_ps))
    with pytest.raises(SystemExit, match="below the bound"):
        leaderboard.known(suites=())


def test_the_best_game_is_the_fastest_end_of_one(recorded, monkeypatch):
    """A plan that is no faster than the rules' may be theirs, and none counts as faster than the best known plan."""
    row = known_results()[GAME]
    for latencies, expected in (
        ([(row.cheap_ps, False)], None),
        ([(row.cheap_ps, True), (row.cheap_ps + 1, True), (row.cheap_ps, False)], row.cheap_ps),
        ([(row.cheap_ps, True), (row.cheap_ps - 1, False)], row.cheap_ps - 1),
        ([(row.best_ps - 1, False), (row.cheap_ps, True)], row.best_ps),
    ):
        games = [(GAME, *latency) for latency in latencies]
        monkeypatch.setattr(leaderboard, "played", lambda suites, games=games: [*games, (MAP, 1, True)])
        found = tomllib.loads(leaderboard.known(suites=()))
        assert found[GAME].get("reachable_ps") == expected
        assert found[MAP]["reachable_ps"] == found[MAP]["best_ps"]


def test_no_run_of_ours_is_faster_than_the_best_known_plan():
    records = [
        run for run in learning.EXPERIMENTS[0].open().records if run["id"] in known_results() and "latency_ps" in run
    ]
    worst = max(records, key=lambda run: known_results()[run["id"]].best_ps / run["latency_ps"])
    # Two plans of before plans were kept, of CLIP and ConvNeXt-tiny-edge-tpu, are faster by less than a thousandth.
    assert known_results()[worst["id"]].best_ps < 1.001 * worst["latency_ps"], f"keep the plan of {worst}"
