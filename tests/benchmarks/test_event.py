"""Tests of `benchmarks.event`: shares of the best found, the rule that gives ids, and its search."""

from __future__ import annotations

import pytest

from benchmarks import event, event_cases
from benchmarks.event import CHEAP, LEAST, Results, chosen, passes, results
from benchmarks.event_cases import Case
from benchmarks.event_search import MachineAnnealing
from benchmarks.ids_file import registered
from benchmarks.ledger import Ledger
from memplace_agents import GreedyPlayer
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator.event_description import NO_MECHANISMS

GAME = Case(Formulation.GAME, "BERT")
RECORDS = Ledger(event.RESULTS, event.FIELDS).of(event_cases.runs(event_cases.CASES, event_cases.ablations()))


def result(case: Case = GAME, **slower: float | None) -> Results:
    """Return results in which every cheap solver leaves 5 %, or what is passed for it; None: it was not measured."""
    left = dict.fromkeys(CHEAP, 0.05) | {solver.replace("_", "-"): value for solver, value in slower.items()}
    times = {solver: 1 + value for solver, value in left.items() if value is not None}
    runs = {solver: [{"latency_s": time, "nominal_s": 1.0}] for solver, time in times.items()}
    return Results(case, runs | {event.FROM_BEST: [{"latency_s": 1.0}, {"latency_s": 1.5}]})


def test_left_is_the_mean_of_the_seeds_over_the_best_of_any_seed():
    found = result(calibrated_100=None)
    found.runs["calibrated-100"] = [{"latency_s": 1.0}, {"latency_s": 1.2}]
    assert found.left("calibrated-100") == pytest.approx(0.1)
    assert found.left(event.FROM_BEST) == pytest.approx(0.25)
    assert found.least == (pytest.approx(0.05), event.BEST_RULE)


def test_an_id_needs_enough_over_every_cheap_solver():
    assert passes(result())
    assert chosen([result()])["game"] == {"BERT": event_cases.settings_of(GAME)}
    for solver in CHEAP:
        name = solver.replace("-", "_")
        assert not passes(result(**{name: LEAST - 1e-6}))
        assert passes(result(**{name: LEAST + 1e-6}))
        assert not passes(result(**{name: None})), "not before all are measured"


def test_ids_are_of_settings_on_the_chips_own_mechanisms():
    assert passes(result(Case(Formulation.ONE_SHOT, "BERT")))
    assert not passes(result(Case(Formulation.ONE_SHOT, "BERT", event_cases.TWO_BUFFERS)))


def test_ids_of_maps_on_the_npu_have_their_batch_and_one_of_a_name():
    batches = [Case(Formulation.ONE_SHOT, f"ResNet50-intel-npu-4000{end}") for end in ("", event_cases.BATCH_1)]
    for case, batch in zip(batches, (8, 1), strict=True):
        (settings,) = chosen([result(case)])["one-shot"].values()
        expected = {"workload": "ResNet50", "accelerator": "intel-npu-4000", "batch": batch, "dtype": "int8"}
        assert settings == expected
    with pytest.raises(ValueError, match="two batches"):
        chosen([result(case) for case in batches])


def test_the_event_ids_are_those_that_the_rule_gives():
    names = chosen(results(RECORDS))
    assert registered()["variants"][event.END] == {"settings": {"simulator": "event"}, **names}


def test_cases_are_as_many_as_asked_and_each_machine_differs():
    maps = {case.name for case in event_cases.CASES if case.formulation == Formulation.ONE_SHOT}
    assert len(maps) == 20
    assert len([case for case in event_cases.CASES if case.formulation == Formulation.GAME]) == 6
    found = event_cases.ablations()
    assert len({(case.name, event_cases.mechanisms_of(case)) for case in found}) == len(found)
    assert event_cases.mechanisms_of(GAME._replace(machine="no mechanism")) == NO_MECHANISMS


def test_without_mechanisms_the_exact_plan_is_as_fast_as_by_the_costs():
    exact = [record for record in RECORDS if record["solver"] == event.NO_TIE_BREAK]
    bare = [record for record in exact if record["machine"].endswith("no mechanism")]
    assert bare
    assert all(record["latency_s"] == record["nominal_s"] for record in bare)


def test_the_search_measures_every_game_and_is_deterministic():
    env = MallocGameEnv("synthetic:diamond?ops=9&seed=1", "tpu-v4i", simulator="event")
    found = [MachineAnnealing().solve(env, budget=60, seed=seed) for seed in (0, 0)]
    assert found[0].plan == found[1].plan
    before = env.problem.evaluated
    last = MachineAnnealing().solve(env, budget=60, seed=1)
    assert env.problem.evaluated - before == last.evaluations <= 60
    greedy = GreedyPlayer().solve(env)
    assert last.report is not None
    assert greedy.report is not None
    assert last.report.latency_ps <= greedy.report.latency_ps
