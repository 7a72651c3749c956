"""What two plans serve from different memories, and what that is worth."""

from __future__ import annotations

import json

import numpy as np
import pytest

from memplace_env.accelerator import load_accelerator
from memplace_env.analysis import Judged, all_backing_baseline, deciding_levels, native_baseline, routes_between
from memplace_env.compiler import place_mapping
from memplace_env.resolve import make_task
from memplace_env.simulator import judge_plan
from memplace_env.task import Task
from memplace_env.workload.resolve import resolve_workload
from tests.subjects import Subject


def random_plan(task: Task, seed: int) -> Judged:
    """What the compiler makes of a random map."""
    levels = np.random.default_rng(seed).integers(task.accelerator.num_levels, size=task.program.num_tensors)
    plan = place_mapping(task, levels).plan
    return Judged(plan, judge_plan(task, plan))


def total_ps(task: Task, first: Judged, second: Judged) -> float:
    """What routes and waiting explain."""
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
    task, judged = copies
    backing = all_backing_baseline(task)
    saved = backing.report.latency_ps - judged.report.latency_ps
    assert total_ps(task, backing, judged) == pytest.approx(saved)
    (route,) = routes_between(task, backing, judged)
    assert (route.source, route.target) == (1, 0)
    assert route.saved_ps > saved  # the plan waits, the other does not
    json.dumps(route.to_json(task), allow_nan=False)


def test_nothing_moves(copies: Subject) -> None:
    assert routes_between(copies.task, copies.judged, copies.judged) == []
    assert deciding_levels(copies.task, []) == [0]
