"""Orders as a decision, and results in place, with a condition broken once: the proof over all orders says it."""

from __future__ import annotations

import types
from dataclasses import replace
from itertools import count as count_from
from itertools import islice, product
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from memplace_agents.exact import chains
from memplace_agents.exact.highs import MipResult, solve
from memplace_agents.exact.order import freedom, order_kernels, order_model, order_search
from memplace_agents.exact.order.freedom import freedom_of, in_order
from memplace_agents.exact.order.order_search import ground_of
from memplace_env._lib.units import PS
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.machine.accelerator import MemoryLevel
from memplace_env.placement.compiler.density import block_lives
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Ints, TensorKind
from memplace_env.testing.cost_models import RandomCosts
from tests.agents.test_order import best_plan_ps, best_ps, every_order
from tests.by_hand import machine
from tests.mutation import Case, decides, noted, plain_kernels, unnoticed, with_limits
from tests.strategies import with_pairs


def task_of(
    seed: int, ops: int = 5, capacity: int = 50, levels: int = 2, weights: str = "resident", share: float = 0.2
) -> Task:
    """Return a random task: several orders, results and weights that are alike, results in place."""
    rng, builder = np.random.default_rng(seed), ProgramBuilder("random", "int8")

    def alike(name: str, kind: TensorKind) -> list[int]:
        size, number = int(rng.integers(8, 40)), 1 + (rng.random() < share)
        return [builder.tensor(f"{name}.{n}", size, kind) for n in range(number)]

    first = alike("t0", TensorKind.ACTIVATION)
    made = [[builder.tensor("x", 20, TensorKind.INPUT)]]
    unread, weights_of = {0}, list[list[int]]()
    for op in range(ops):
        last = op == ops - 1 and rng.random() < 0.7
        reads = {*rng.integers(len(made), size=2).tolist(), *(unread if last else ())}
        unread = (unread - reads) | {len(made)}
        fresh = rng.random() < 0.3
        weights_of += [alike(f"w{op}", TensorKind.WEIGHT)] if fresh else []
        constants = weights_of[-1] if fresh or (weights_of and rng.random() < 0.3) else []
        results = alike(f"t{op}", TensorKind.OUTPUT if last else TensorKind.ACTIVATION) if op else first
        operands = [tensor for group in sorted(reads) for tensor in made[group]]
        builder.op("Op", operands + constants, results, vector_ops=int(rng.integers(1, 20)))
        made.append(results)
    fast, slow = machine().levels
    near = MemoryLevel("near", 60, 10**10 // 3, 10**10 // 3, 0, 1.0)
    chip = machine(levels=(replace(fast, capacity_bytes=capacity), *[near] * (levels - 2), slow), weights=weights)
    return make_task(with_pairs(builder.build(), seed), chip)


def small(count: int, most: int = 8, tight: bool = False, **setting: Any) -> list[Task]:
    """Return random tasks with several orders, of which every order and every map can be tried.

    Args:
        count: number of tasks.
        most: most tensors that may lie in a fast level.
        tight: True for those alone that another order, or no results in place, would change.
        setting: see `task_of`.
    """
    tasks = (task_of(seed, **setting) for seed in count_from(0))
    several = (task for task in tasks if len(free_pairs(task)) > 1 and task.program.is_placeable.sum() <= most)
    return [*islice((task for task in several if not tight or matters(task)), count)]


def free_pairs(task: Task) -> Ints:
    return freedom_of(task).free


def matters(task: Task) -> bool:
    """Return whether the best plan in the task's order is slower without results in place, or than in another order."""
    without = replace(task, program=replace(task.program, inplace=task.program.inplace[:0]))
    own = best_ps(task)
    return own < best_ps(without) and proof(order_model, task, 9)[2] < own - 10


def cut() -> Task:
    """Return a random task in slices, some of which are alike."""
    program = task_of(1, ops=4).program
    rows = replace(program, tensor_rows=np.stack([np.ones_like(program.tensor_bytes), program.tensor_bytes], axis=1))
    return resolve_task(rows, task_of(1).accelerator, slices=0.2)


def said(value: object) -> object:
    """Return plain values of arrays and what holds them."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple | list):
        return [said(each) for each in value]
    return value


def test_what_is_true_in_every_order_is_noticed_when_it_is_broken() -> None:
    """Tensors alive in some order are among `always` and `maybe`; costs are made anew, and foreign ones refused."""
    cases: list[Case] = []
    for task in small(12, weights="streamed") + small(4):
        free, program = freedom_of(task), task.program
        lives = np.zeros((2, program.num_ops, program.num_tensors), dtype=np.int64)  # in any order, in all
        orders = [*every_order(program)]
        for order in orders:
            own = in_order(task, order).program
            at = np.arange(program.num_ops)[:, None]
            alive = (own.live_start <= at) & (own.live_end >= at)
            lives[0, order] |= alive
            lives[1, order] += alive
        assert (free.always == (lives[1] == len(orders))).all()
        assert (free.always | free.maybe | (lives[0] == 0)).all()
        cases.append(noted(lambda module, task=task: str(said((*(given := module.freedom_of(task)), given.free)))))
        for order in orders[:3]:
            cases.append(noted(lambda module, task=task, order=order: str(vars(module.in_order(task, order)))))
    first = small(1)[0]
    again = in_order(first, [*every_order(first.program)][-1])
    back = np.argsort(again.settings["order"])
    for task, order in ((again, back), (task_of(3, capacity=30), np.arange(5))):
        cases.append(noted(lambda module, given=(task, order): str(module.in_order(*given).settings)))
    foreign = [
        replace(first, costs=first.costs._replace(overhead_ps=first.costs.overhead_ps + 1)),
        resolve_task("synthetic:chain?ops=4", "nnp-i", simulator="event"),
        replace(first, settings={**first.settings, "costs": "of-another"}),
        make_task(first.program, first.accelerator, costs=RandomCosts(1)),
        resolve_task("NeRF", "ethos-u65"),
    ]
    cut = resolve_task("synthetic:diamond?ops=9&seed=1", "nnp-i", slices=0.1)
    *fast, last = cut.accelerator.levels
    flash = replace(cut.accelerator, levels=(*fast, replace(last, holds=("weights",), writable=False)), io_level="any")
    rows = replace(cut.program, tensor_rows=np.tile([1, 8], (cut.program.num_tensors, 1)))
    closed = [resolve_task(rows, flash, slices=slices) for slices in (None, 0.1)]
    assert closed[1].program.slices is not None
    foreign += [*closed, replace(closed[0], settings={**closed[0].settings, "costs": "of-another"})]
    cases += [noted(lambda module, task=task: str(said(module.freedom_of(task)))) for task in foreign]
    cases.append(noted(lambda module: str(module.in_order(cut, np.arange(9)).program.num_tensors)))
    cases += [with_limits(cases[0], MOST_OPS=most) for most in (4, 5, 6)]
    rng = np.random.default_rng(0)
    for _ in range(6):
        later, (own, ahead) = np.triu(rng.random((5, 5)) < 0.3, 1), rng.integers(0, 9, (2, 5))
        for op in range(5):
            later[:, op] |= later @ later[:, op]
        for each in (ahead, ahead * 0):
            cases.append(noted(lambda module, given=(later, own, each): str(module._least_reserved(*given).tolist())))
    for weights in ("resident", "streamed"):
        cases.append(noted(lambda module, kind=weights: str(module.is_resident(task_of(0, weights=kind)).tolist())))
    assert unnoticed(freedom, decides, cases, same=("if not ahead.any()",)) == []


def proof(module: types.ModuleType, task: Task, most: int) -> list[int]:
    """Return the bound over all orders and the optimum of the program of pairs in ps, and how often it met circles."""
    free, found = freedom_of(task), []
    for pairs in (False, True):
        model, met = module.order_model(task, free, pairs=pairs), 0
        while (answer := solve(model.program)).values is not None:
            if not pairs or (order := model.order(answer.values)) is not None:
                break
            model, met = model.without_circles(answer.values), met + 1
            if met > most:
                break
        found += [round(answer.bound * model.static.unit_ps + model.static.overhead_ps, -1), met]
    return [*found, None if order is None else order.tolist()]


def test_the_proof_over_all_orders_is_noticed_when_it_is_broken() -> None:
    """The program of pairs has the optimum of all orders and maps; the bound is no higher."""
    tasks = [*small(4, tight=True), *small(2, tight=True, capacity=70), *small(3, 7, tight=True, ops=6)]
    tasks += [*small(2, 5, levels=3), *small(3, weights="streamed")]
    for task in tasks:
        bound, _, optimum, *_ = proof(order_model, task, 9)
        least = best_plan_ps if task.streams_weights else best_ps
        best = min(least(in_order(task, order)) for order in every_order(task.program))
        assert bound <= best + 10
        assert optimum <= best + 10 if task.streams_weights else abs(optimum - best) <= 10
    cases = [noted(lambda module, task=task: str(proof(module, task, 9))) for task in tasks]
    further = [*small(1, 9, ops=7), *small(3, 9, ops=6, capacity=25), *small(6, capacity=90)]
    further += [
        *small(6, weights="streamed"),
        *(task for task in map(task_of, range(40)) if len(free_pairs(task)) == 1),
    ]
    for task in (*further, *tasks[::4], cut()):
        free = freedom_of(task)

        def rows(module: types.ModuleType, task: Task = task, free: Any = free) -> str:
            model = module.order_model(task, free, pairs=True)
            answers = np.random.default_rng(0).random((3, len(model.program.cost)))
            orders = [model.order(each) for each in answers]
            programs = [model.program, module.order_model(task, free, pairs=False).program]
            programs += [model.without_circles(each).program for each in answers]
            return str([said(orders), [(each.matrix.shape, each.matrix.sum()) for each in programs]])

        cases.append(noted(rows))
    cases += [with_limits(cases[len(tasks)], MOST_CYCLES=most) for most in range(4)]
    same = (
        *("constant = np.where(column >", "constant = np.where(column >= 0, one >", "return (column, np.where(one <"),
        *("first, second = np.nonzero(self.pair >", "chosen = ", "circle = circle[(circle >", "full = "),
    )
    assert unnoticed(order_model, decides, cases, same=same) == []


def test_the_value_of_an_order_and_its_moves_are_noticed_when_they_are_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_kernels(monkeypatch)
    tasks = [*small(40), *small(14, 9, ops=7), *small(3, levels=3), *small(3, weights="streamed"), task_of(0, ops=1)]
    cases: list[Case] = []
    for seed, task in enumerate(tasks):
        ground, rng = ground_of(task, freedom_of(task)), np.random.default_rng(seed)
        own, ahead = rng.integers(0, 12, (2, task.program.num_ops))
        orders = [*islice(every_order(task.program), 3)]
        for capacity, order in product(range(20, 130, 10), orders):
            room = np.full_like(ground.capacity, capacity + seed % 10)
            reserved = {"own": own * (seed % 2), "ahead": ahead * (seed % 2)}
            changed = ground._replace(capacity=room, saved=ground.saved / 10 ** (seed % 7), **reserved)
            place = np.argsort(order)
            cases.append(noted(lambda module, given=(changed, order, place): str(module.value(*given))))

        def annealed(module: types.ModuleType, ground: Any = ground, seed: int = seed) -> str:
            current = np.arange(len(ground.own))
            best = current.copy()
            found = module.anneal(ground, np.geomspace(1e5, 1e3, 30), seed, current, best)
            return str([found, current.tolist(), best.tolist()])

        cases.append(noted(annealed))
    same = (
        *(
            "if np.random.random() <= 0.5",
            "if right < left:",
            "if right > left",
            "if right >= left +",
            "if found < best_latency - 1",
        ),
        *(f"if found <= latency {more}" for more in ("+ 1", "or np.random.random() <=")),
        *(
            "if to >= at",
            "if to > at - 1",
            "begin, end = (since + (operand >= 0), until - (result >",
            "if result > 0",
            "if result >= 0 + 1",
        ),
    )
    assert unnoticed(order_kernels, decides, cases, same=same) == []


class Planner:
    """Stands for `Exact`: the best levels in an order, found by trying all; it counts how often it is asked."""

    plans: ClassVar[dict[str, int]] = {}

    def __init__(self, **options: Any) -> None:
        self.options = options

    def solve(self, env: OneShotEnv, time_limit: float | None = None) -> Any:
        latency = self.plans.setdefault(env.task.program.sha256, best_ps(env.task))
        ASKED.append((self.options["work"], time_limit and round(time_limit, 6), self.checks))  # type: ignore[attr-defined]
        report = SimpleNamespace(latency_ps=latency, latency_s=latency * PS, traffic_bound_s=0.0)
        return SimpleNamespace(report=report, bound_s=latency * PS)


ASKED: list[tuple[Any, ...]] = []


class Seconds:
    """Stands for the evaluator: of a limit a second is gone at each look."""

    seconds = 0.0

    def __init__(self, *_: object, time_limit: float | None = None, **__: object) -> None:
        self.left = time_limit

    @property
    def seconds_left(self) -> float | None:
        if self.left is not None:
            self.left -= 1
        return self.left


def test_the_search_for_an_order_is_noticed_when_it_is_broken() -> None:
    """The search ends after a proof, after annealing, and after seconds instead of work."""
    tasks = [*small(2, 6, tight=True), *small(1, 5, levels=3)]
    gaps = [(task, proof(order_model, task, 9), best_ps(task)) for task in small(24, 6, ops=6)]
    loose = [task for task, (bound, *_), own in gaps if bound < 0.95 * own][:1]
    loose += [task for task, (bound, _, best, *_), own in gaps if bound < 0.95 * best < own < best + 10][:1]

    def found(task: Task, *given: Any, **limits: object) -> Case:
        def ask(module: types.ModuleType) -> str:
            ASKED.clear()
            answer = module.find_order(task, *given)
            order = None if answer.order is None else answer.order.tolist()
            return str([order, answer.summary(answer.solution.report.latency_s), ASKED])

        return with_limits(noted(ask), Exact=Planner, OneShotEvaluator=Seconds, **{"MOST_ORDERS": 1500} | limits)

    cases = [noted(lambda module: str(said(module.ground_of(tasks[0], freedom_of(tasks[0])))))]
    for task in (*tasks, *loose):
        free = len(free_pairs(task))
        cases += [found(task), found(task, None, 2.0, MOST_PAIRS=-1), found(task, ENOUGH=0.3)]
        cases += [found(task, MOST_PAIRS=free + more) for more in (-1, 0)]
    cases += [found(loose[0], seconds, MOST_PAIRS=-1) for seconds in range(1, 40, 3)]

    def without_values(program: Any, **options: Any) -> MipResult:
        return solve(program, **options)._replace(values=None)

    cases.append(found(loose[0], solve=without_values))

    def closed(module: types.ModuleType, bound: float) -> str:
        search = module._Search(loose[0], freedom_of(loose[0]), None, 1.0)
        search.bound_ps, search.best = bound, SimpleNamespace(report=SimpleNamespace(latency_ps=3000))
        return str(search._closed)

    for bound in (1999, 1999.5, 2000, 2001):
        each = noted(lambda module, bound=bound: closed(module, bound))
        cases.append(with_limits(each, ENOUGH=0.5, Exact=Planner, OneShotEvaluator=Seconds))
    given = Planner(work=1)
    given.checks = False  # type: ignore[attr-defined]
    plan = given.solve(OneShotEnv(tasks[0]))
    for latency in (1.25, 1.5, 1.75):
        each = noted(
            lambda module, latency=latency: str(module.FoundOrder(None, plan, plan, 1.0, 0, 0).summary(latency))
        )
        cases.append(with_limits(each, OPTIMAL_GAP=0.5))
    same = (
        *("if solution.report.latency_ps < self.best.report.latency_ps - 1", "if value < least - 1"),
        *(
            "if self._left is not None and self._left < begun",
            "if begun is not None and self._left is not None and (self._left <=",
        ),
    )
    assert unnoticed(order_search, decides, cases[::-1], same=same) == []


def test_chains_of_results_in_place_are_noticed_when_they_are_broken() -> None:
    """Plans can run in which each block finds a place."""
    cases: list[Case] = []
    tasks = [*small(12, 9, ops=7), *small(8, 9, ops=7, levels=3), *small(2, weights="streamed")]
    for seed, task in enumerate([*tasks, *small(12, 14, share=0.7)]):
        rng, program = np.random.default_rng(seed), task.program
        first, last = block_lives(task)
        for _ in range(3):
            level = np.where(program.is_placeable, rng.integers(0, task.backing + 1, program.num_tensors), task.backing)
            tensor = rng.permutation(np.flatnonzero(level < task.backing))
            blocks = np.stack([tensor, level[tensor], first[tensor], last[tensor]], axis=1)
            if not len(blocks):
                continue
            offset, conflicts, _ = chains.pack_chains(task, blocks)
            if not conflicts and not task.streams_weights:
                rows = np.insert(blocks, 2, offset, axis=1)
                plan = task.make_plan(level[program.use_tensor], rows)
                assert violations(task, plan) == []
            for room in range(0, 120, 3):

                def chained(module: types.ModuleType, given: Any = (task, blocks), room: int = room) -> str:
                    limited = SimpleNamespace(
                        program=given[0].program, handovers=given[0].handovers, backing=1, room_bytes=lambda _: room
                    )
                    head = module.heads(limited, given[1], needed=room > 0)
                    return str([head.tolist(), module.joined(*given, head).tolist()])

                cases.append(noted(chained))
            for explain in (True, False):
                given = {"explain": explain}
                cases.append(noted(lambda module, a=(task, blocks), b=given: str(said(module.pack_chains(*a, **b)))))
    # Three operands and three results of which two pairs at most share a place.
    program = SimpleNamespace(num_ops=2, tensor_bytes=np.full(6, 10))
    pairs = np.array([[0, 3, 1], [1, 3, 1], [2, 4, 1], [2, 5, 1]])
    apart = SimpleNamespace(program=program, handovers=pairs, backing=1, room_bytes=lambda _: 0)
    blocks = np.array([[tensor, 0, tensor > 2, 1] for tensor in range(6)])
    cases.append(noted(lambda module: str(module.heads(apart, blocks, needed=False).tolist())))
    same = (
        "if not len(task.handovers)",
        "offset, conflicts = pack(task, joined(task, blocks, head), clock, explain=explain)",
    )
    assert unnoticed(chains, decides, cases, same=same) == []
