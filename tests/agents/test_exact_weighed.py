"""Weights in the place of sizes: no set of blocks that fits weighs more than 1, and answers that do are cut off."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.exact.dynamic.dual_feasible import DualFeasible, candidates, weights_of
from memplace_agents.exact.dynamic.dynamic_model import build
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_agents.exact.dynamic.weighed_rows import MOST_ROWS, violated_rows
from memplace_agents.exact.highs import relax, solve
from memplace_env.placement.resolve_task import make_task
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import TensorKind
from tests.agents.test_exact import chip_with

CLOSE = 1 + 2e-6


@st.composite
def sizes_that_fit(draw: st.DrawFn) -> tuple[list[int], int]:
    """Sizes that add up to at most a room, mostly to all of it."""
    room, sizes = draw(st.integers(1, 10**6) | st.integers(1, 40)), list[int]()
    left = room - draw(st.just(0) | st.integers(0, room // 2))
    while left > 0 and len(sizes) < 9:
        sizes.append(draw(st.integers(1, left) | st.just(left)))
        left -= sizes[-1]
    return sizes, room


@given(sizes_that_fit(), st.lists(st.integers(1, 10**6), max_size=4))
def test_blocks_that_fit_weigh_at_most_1(fitting, others):
    sizes, room = fitting
    distinct = np.unique([*sizes, *(size for size in others if size <= room)]).astype(np.int64)
    if not len(distinct):
        return
    weights = weights_of(list(candidates(distinct, room)), np.array(sizes, dtype=np.int64), room)
    assert weights.min(initial=0) >= 0
    assert (weights.sum(axis=1) <= 1 + 1e-12).all()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (DualFeasible(threshold=20), [0, 0.2, 0.5, 0.8, 1, 1]),
        (DualFeasible(steps=1), [0, 0, 0.5, 1, 1, 1]),
        (DualFeasible(threshold=20, steps=2), [0, 0, 0.5, 1, 1, 1]),
        (DualFeasible(unit=40, multiple=1), [0, 0, 0.5, 1, 1, 1]),
    ],
)
def test_weights_by_hand(function, expected):
    """Six sizes in a room of 100 bytes, in which 2 1/2 units of 40 fit; the half unit counts nothing."""
    assert weights_of([function], np.array([19, 20, 50, 80, 81, 200]), 100)[0].tolist() == expected


def test_an_answer_of_shares_is_cut_off():
    """Two blocks of 0.6 of the memory, alive together, fit to 5/6 each until the rows allow only one of them."""
    builder = ProgramBuilder("halves", "int8")
    x, y = builder.tensor("x", 1, TensorKind.INPUT), builder.tensor("y", 1, TensorKind.OUTPUT)
    one, two = builder.tensor("one", 6000), builder.tensor("two", 6000)
    builder.op("Make", [x], [one])
    builder.op("Turn", [one], [two])
    builder.op("Read", [one, two], [y])
    task = make_task(builder.build(), chip_with(10_000, weights="streamed"))
    model = build(task)
    answer = relax(model.program)
    rows = violated_rows(model, answer.values)
    at = [row[:2] for row in rows.weighed]
    assert at
    assert max(at.count(each) for each in at) <= MOST_ROWS
    whole = solve(model.program).bound
    higher = relax(build(task, rows).program).bound
    assert answer.bound < higher * 0.99
    assert higher <= whole * CLOSE
    assert linear_bound(task).bound_ps >= higher * model.unit_ps * (1 - 1e-9)
