"""Routes: uses that two plans serve from different memories, and the time between them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from memplace_env.placement.workloads import resolve_workload
from memplace_env.report.explanation.routes import deciding_levels, routes_between
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, all_backing_baseline, native_baseline
from tests.subjects import Subject


def random_plan(task: Task, seed: int) -> EvaluatedPlan:
    """Return the compiler's plan of random levels."""
    levels = np.random.default_rng(seed).integers(task.accelerator.num_levels, size=task.program.num_tensors)
    plan = place_levels(task, levels).plan
    return EvaluatedPlan(plan, evaluate_plan(task, plan))


def total_ps(task: Task, first: EvaluatedPlan, second: EvaluatedPlan) -> float:
    """Return the time that routes and waiting explain."""
    return sum(route.saved_ps for route in routes_between(task, first, second)) + first.waits_ps - second.waits_ps


@pytest.mark.parametrize("chip", ["nnp-i", "tpu-v4i"])
def test_routes_and_waiting_explain_the_difference(chip: str) -> None:
    """Forwards and backwards, whatever the plans."""
    task = make_task(resolve_workload("synthetic:random?ops=20&seed=3"), load_accelerator(chip))
    plans = [random_plan(task, seed) for seed in range(4)] + [native_baseline(task), all_backing_baseline(task)]
    for first in plans:
        for second in plans:
            saved = first.report.latency_ps - second.report.latency_ps
            assert total_ps(task, first, second) == pytest.approx(saved)
            routes = routes_between(task, first, second)
            assert all(route.source != route.target and len(route.tensors) for route in routes)
            assert sorted(map(abs, (route.saved_ps for route in routes)), reverse=True) == [
                abs(route.saved_ps) for route in routes
            ]


def test_copies_and_stalls(copies: Subject) -> None:
    """Waiting is not blamed on a way from level to level."""
    task, evaluated = copies
    backing = all_backing_baseline(task)
    saved = backing.report.latency_ps - evaluated.report.latency_ps
    assert total_ps(task, backing, evaluated) == pytest.approx(saved)
    (route,) = routes_between(task, backing, evaluated)
    assert (route.source, route.target) == (1, 0)
    assert route.saved_ps > saved  # the plan waits, the other does not
    json.dumps(route.to_json(task), allow_nan=False)


def test_nothing_moves(copies: Subject) -> None:
    assert routes_between(copies.task, copies.evaluated, copies.evaluated) == []
    assert deciding_levels(copies.task, []) == [0]
