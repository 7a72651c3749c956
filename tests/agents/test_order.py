"""Orders as a decision: the bound over all orders and the program of pairs against every order of tiny programs."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.exact.highs import solve
from memplace_agents.exact.order import order_search
from memplace_agents.exact.order.freedom import _least_reserved, freedom_of, in_order
from memplace_agents.exact.order.order_kernels import anneal, value
from memplace_agents.exact.order.order_model import OrderModel, order_model
from memplace_agents.exact.order.order_search import find_order, ground_of
from memplace_env._lib.errors import AgentError
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.compiler.density import block_lives
from memplace_env.placement.compiler.placing_order import latency_ps
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.simulator import evaluate_plans
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program
from memplace_env.program.reordering import checked_order, dependences, memory_order, reordered
from memplace_env.testing.cost_models import RandomCosts
from tests.program.test_reordering import late_readers
from tests.strategies import orders, programs, programs_with_pairs, tasks, two_level_accelerators
from tests.thorough import examples

MOST = 200
"""Orders and maps that a test tries."""

chips = st.builds(replace, two_level_accelerators(), weights=st.sampled_from(["resident", "resident", "streamed"]))
tiny = tasks(programs(5) | programs_with_pairs(programs(5)), chips, st.just("roofline"))


def every_order(program: Program) -> Iterator[Ints]:
    """Yield all orders of a program."""
    before = {op: set[int]() for op in range(program.num_ops)}
    for first, later in dependences(program).tolist():
        before[later].add(first)

    def extended(order: list[int]) -> Iterator[list[int]]:
        if len(order) == program.num_ops:
            yield order
        for op in before.keys() - order:
            if before[op] <= set(order):
                yield from extended([*order, op])

    yield from (np.array(order, dtype=np.int64) for order in extended([]))


def most_saved(pairs: list[tuple[int, int]], size: Ints) -> int:
    """Return the most bytes that pairs (operand, result) of one op save, each operand and each result once."""
    if not pairs:
        return 0
    (operand, result), *others = pairs
    rest = [pair for pair in others if pair[0] != operand and pair[1] != result]
    return max(most_saved(others, size), int(size[operand]) + most_saved(rest, size))


def best_ps(task: Task) -> int:
    """Return the least latency of all levels whose bytes fit in every op, results in place where they may be.

    No copy takes time.
    """
    program, least = task.program, np.iinfo(np.int64).max
    (first, last), size = block_lives(task), program.tensor_bytes
    tensors = np.flatnonzero(program.is_placeable)
    at = np.arange(program.num_ops)
    alive = (first <= at[:, None]) & (last >= at[:, None])
    handovers, fast = program.handovers.tolist(), task.accelerator.levels[:-1]
    for chosen in product(range(task.backing + 1), repeat=len(tensors)):
        level = np.full(program.num_tensors, task.backing)
        level[tensors] = chosen
        used = [(alive & (level == own)) @ size for own in range(task.backing)]
        for op in {where for *_, where in handovers}:
            pairs = [(k, r) for k, r, where in handovers if where == op and level[k] == level[r]]
            for own, held in enumerate(used):
                held[op] -= most_saved([pair for pair in pairs if level[pair[0]] == own], size)
        if all((held <= own.capacity_bytes).all() for held, own in zip(used, fast, strict=True)):
            least = min(least, latency_ps(task, level))
    return int(least)


def best_plan_ps(task: Task) -> int:
    """Return the least latency of compiled plans of all levels, copies included."""
    level, plans = np.full(task.program.num_tensors, task.backing), []
    tensors = np.flatnonzero(task.program.is_placeable)
    for chosen in product(range(task.backing + 1), repeat=len(tensors)):
        level[tensors] = chosen
        plans.append(place_levels(task, level).plan)
    return min(report.latency_ps for report in evaluate_plans(task, plans))


def optimum(model: OrderModel) -> tuple[float, OrderModel]:
    """Return the optimum in ps, with rows against circles until there are none."""
    while True:
        answer = solve(model.program)
        assert answer.values is not None
        if model.order(answer.values) is not None or not (model.pair >= 0).any():
            return answer.bound * model.static.unit_ps + model.static.overhead_ps, model
        model = model.without_circles(answer.values)


@examples(40)
@given(tiny)
def test_bound_and_pairs_against_every_order(task: Task) -> None:
    """The bound is below all orders; the program of pairs finds the best one, where no copies have to be made."""
    freedom = freedom_of(task)
    every = list(every_order(task.program))
    if len(every) > MOST or task.program.is_placeable.sum() > 9:
        return
    least = best_plan_ps if task.streams_weights else best_ps
    best = min(least(in_order(task, order)) for order in every)
    close = 1 + 1e-5
    assert optimum(order_model(task, freedom, pairs=False))[0] <= best * close + 1
    paired, _ = optimum(order_model(task, freedom, pairs=True))
    assert paired <= best * close + 1
    if not task.streams_weights:
        assert best <= paired * close + 1


@examples(40)
@given(tiny, st.data())
def test_values_are_of_maps_that_fit(task: Task, data: st.DataObject) -> None:
    order = data.draw(orders(task.program))
    if task.program.is_placeable.sum() <= 9:
        found = value(ground_of(task, freedom_of(task)), order, np.argsort(order))
        assert found >= best_ps(in_order(task, order))


@examples(60)
@given(programs(6), st.integers(0, 2**32))
def test_least_reserved(program: Program, seed: int) -> None:
    own, ahead = np.random.default_rng(seed).integers(0, 9, (2, program.num_ops))
    least = np.full(program.num_ops, np.iinfo(np.int64).max)
    for count, order in enumerate(every_order(program)):
        np.minimum.at(least, order, own[order] + np.append(ahead[order[1:]], 0))
        if count > MOST:
            return
    freedom = freedom_of(make_task(program, resolve_task("NeRF", "nnp-i").accelerator, costs="roofline"))
    assert (_least_reserved(freedom.before, own, ahead) == least).all()


@examples(20)
@given(tasks(programs(12), two_level_accelerators(), st.just("roofline")), st.integers(0, 9))
def test_annealing_keeps_dependences(task: Task, seed: int) -> None:
    ground, own = ground_of(task, freedom_of(task)), np.arange(task.program.num_ops)
    current, best = own.copy(), own.copy()
    found = anneal(ground, np.full(30, 1e9), seed, current, best)
    assert (checked_order(task.program.whole, best) == best).all()
    assert found == value(ground, best, np.argsort(best)) <= value(ground, own, own)
    again = own.copy()
    assert anneal(ground, np.full(30, 1e9), seed, again, best) == found
    assert (again == current).all()


@pytest.mark.parametrize("pairs", [1000, -1])
def test_an_order_is_found_and_proven(pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """NeRF gains 2.54 %, and no order more; annealing finds it too."""
    monkeypatch.setattr(order_search, "MOST_PAIRS", pairs)
    monkeypatch.setattr(order_search, "MOST_ORDERS", 2_000)
    task = resolve_task("NeRF", "nnp-i", batch=2, dtype="float16", fusion="conv")
    found = find_order(task)
    assert found.free_pairs == 27
    assert found.solution.report is not None
    summary = found.summary(found.solution.report.latency_s)
    assert summary["optimal_over_all_orders"]
    assert (found.orders > 0) == (pairs < 0)
    assert summary["gain"] == pytest.approx(0.0254, abs=1e-4)
    assert found.order is not None
    plan, given_plan = found.solution.plan, found.given.plan
    assert plan is not None
    assert given_plan is not None
    assert plan.program_sha256 == reordered(task.program, found.order).sha256 != given_plan.program_sha256
    assert plan.settings["order"] == found.order.tolist()
    assert in_order(in_order(task, found.order), np.argsort(found.order)).settings == task.settings


def test_costs_that_are_not_known_of_other_orders_are_refused() -> None:
    for task in (
        make_task(late_readers(3), resolve_task("NeRF", "nnp-i").accelerator, costs=RandomCosts(1)),
        resolve_task("NeRF", "nnp-i", simulator="event"),
    ):
        with pytest.raises(AgentError, match="Orders of ops are searched with the built-in simulator"):
            freedom_of(task)


def test_on_ethos_u_an_order_has_the_costs_made_for_it() -> None:
    task = resolve_task("NeRF", "ethos-u65")
    freedom, order = freedom_of(task), memory_order(task.program)
    other = in_order(task, order)
    staged = np.append(freedom.ahead[order[1:]], 0)
    most = task.accelerator.levels[0].capacity_bytes
    assert (other.costs.reserved_bytes[:, 0] == np.minimum(freedom.own[order] + staged, most)).all()
    assert (freedom.least[order] <= other.costs.reserved_bytes[:, 0]).all() or (freedom.own > most).any()
