"""The search for an order of ops: a bound over all orders, a proof where few ops are free, annealing where many are."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from memplace_agents.exact.clock import SEED, Clock
from memplace_agents.exact.exact_agent import Exact
from memplace_agents.exact.highs import MipResult, solve, uninterrupted
from memplace_agents.exact.order.freedom import Freedom, freedom_of, in_order, is_resident
from memplace_agents.exact.order.order_kernels import Ground, anneal
from memplace_agents.exact.order.order_model import OrderModel, order_model
from memplace_agents.exact.proving_search import Claim
from memplace_agents.optimality import OPTIMAL_GAP
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_agents.solution import Solution
from memplace_env._lib.errors import AcceleratorError
from memplace_env._lib.units import PS
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.compiler.placing_order import move_costs
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints
from memplace_env.program.reordering import dependences, memory_order

ENOUGH: Final = 1e-3
"""Relative gap between the best plan and the bound over all orders at which the search ends."""
MOST_PAIRS: Final = 1_000
"""Most pairs of ops that no dependence orders for a binary each."""
MOST_ORDERS, STEPS = 300_000, 8e9
"""Most orders that annealing tries, and most of their tensors, counted twenty times, and uses: some ten seconds."""
CHUNK = 500
"""Orders between two looks at the clock."""
HEATS = ((3e-3, 2e-5), (1e-3, 1e-5), (1e-4, 1e-6))
"""Fractions of the latency by which a worse order is accepted, at first and at last: of a chain that begins with the
task's own order, and of two that begin with few live bytes. Our choice, from trials on six programs."""
TRIED = 2
"""Orders of annealing that the exact agent plans in."""
BOUND_WORK, PAIRS_WORK, EXACT_WORK = 10.0, 20.0, 15.0
"""Work of the bound over all orders, of the program of pairs, and of the exact agent in one order."""


class FoundOrder(NamedTuple):
    """Result of `find_order`.

    Attributes:
        order: int64[T], the best order found; None for that of the task.
        solution: the exact agent's in that order.
        given: the exact agent's in the task's own order.
        bound_s: seconds that no plan with one level a tensor beats, in any order.
        orders: number of orders that were tried.
        free_pairs: pairs of ops that no dependence puts in an order.
    """

    order: Ints | None
    solution: Solution
    given: Solution
    bound_s: float
    orders: int
    free_pairs: int

    def summary(self, latency_s: float) -> dict[str, Any]:
        """Return plain JSON values about a plan in that order."""
        assert self.given.report is not None
        gap = latency_s / self.bound_s - 1
        return {
            "own": self.order is not None,
            "bound_all_orders_s": self.bound_s,
            "gap_all_orders": gap,
            "optimal_over_all_orders": gap <= OPTIMAL_GAP,
            "given_order_latency_s": self.given.report.latency_s,
            "given_order_bound_s": self.given.bound_s,
            "gain": self.given.report.latency_s / latency_s - 1,
            "orders": self.orders,
            "free_pairs": self.free_pairs,
        }


def find_order(task: Task, time_limit: float | None = None, work: float = 1.0) -> FoundOrder:
    """Return an order of a task's ops in which it has a fast plan with one level a tensor, and a bound over all orders.

    Without a time limit the work is limited: the same answer on every machine.

    Args:
        task: the problem.
        time_limit: seconds of the search; None to limit its work.
        work: multiple of the usual work, which takes up to a minute or two; more than 0.

    Raises:
        AgentError: see `freedom_of`.
        KeyboardInterrupt: if an interrupt ended it.
    """
    return _Search(task, freedom_of(task), time_limit, work).run()


class _Search:
    """State of one search."""

    def __init__(self, task: Task, freedom: Freedom, time_limit: float | None, work: float) -> None:
        self.task, self.freedom, self.work = task, freedom, work
        self.evaluator = OneShotEvaluator(OneShotEnv(task), budget=1, time_limit=time_limit)
        self.bound_ps, self.orders = 0, 0
        self.given = self.best = self._exact(task, 0.25)
        self.order: Ints | None = None

    def run(self) -> FoundOrder:
        free = self.freedom.free
        self._bound(order_model(self.task, self.freedom, pairs=False), self._clock(BOUND_WORK))
        if not self._closed and len(free) <= MOST_PAIRS:
            self._prove()
        if not self._closed:
            for order in self._annealed():
                self._try(order, 0.5)
        assert self.best.report is not None
        bound_s = max(self.bound_ps * PS, self.best.report.traffic_bound_s)
        return FoundOrder(self.order, self.best, self.given, bound_s, self.orders, len(free))

    @property
    def _closed(self) -> bool:
        assert self.best.report is not None
        return self.best.report.latency_ps <= self.bound_ps * (1 + ENOUGH)

    @property
    def _left(self) -> float | None:
        return self.evaluator.seconds_left

    def _exact(self, task: Task, share: float) -> Solution:
        seconds = None if self._left is None else max(share * self._left, 0.1)
        agent = Exact(tie_break="none", work=self.work * EXACT_WORK)
        agent.checks = False
        return agent.solve(OneShotEnv(task), time_limit=seconds)

    def _clock(self, work: float) -> Clock:
        limited = self._left is not None
        return Clock.of(self.evaluator).part(np.inf, 0.4) if limited else Clock.of(self.evaluator, self.work * work)

    def _bound(self, model: OrderModel, clock: Clock) -> MipResult:
        """Minimise a program; its bound counts if it is higher than those before."""
        answer = uninterrupted(solve(model.program, gap=OPTIMAL_GAP / 2, clock=clock))
        static = model.static
        claim = Claim.of(model.program, answer.bound, static.unit_ps, static.overhead_ps)
        self.bound_ps = max(self.bound_ps, claim.bound_ps)
        return answer

    def _prove(self) -> None:
        """Solve the program of pairs, with rows against circles until there are none."""
        model, clock = order_model(self.task, self.freedom, pairs=True), self._clock(PAIRS_WORK)
        while not clock.up:
            answer = self._bound(model, clock)
            if answer.values is None:
                return
            order = model.order(answer.values)
            if order is not None:
                self._try(order, 0.5)
                return
            model = model.without_circles(answer.values)

    def _annealed(self) -> list[Ints]:
        """Return the best orders of the chains of annealing, best first."""
        ground, program = ground_of(self.task, self.freedom), self.task.program
        assert self.best.report is not None
        latency, begun = self.best.report.latency_ps, self._left
        own, few = np.arange(program.num_ops), memory_order(program)
        most = min(MOST_ORDERS, STEPS / (program.num_uses + 20 * program.num_tensors))
        count = int((self.work if begun is None else 1) * most) // len(HEATS)
        found = []
        for seed, ends in enumerate(HEATS):
            heats = latency * np.geomspace(*ends, CHUNK * (count // CHUNK + 1))
            current = (few if seed else own).copy()
            best, least = current.copy(), np.iinfo(np.int64).max
            for begin in range(0, len(heats), CHUNK):
                chunk = current.copy()
                value = anneal(ground, heats[begin : begin + CHUNK], SEED + 1000 * seed + begin, current, chunk)
                self.orders += CHUNK
                if value < least:
                    best, least = chunk, value
                if begun is not None and self._left is not None and self._left < begun * (1 - 0.2 * (seed + 1)):
                    break
            found.append((least, seed, best))
        return [best for _, _, best in sorted(found, key=lambda item: item[:2])][:TRIED]

    def _try(self, order: Ints, share: float) -> None:
        """Let the exact agent plan in an order, and keep what is faster."""
        if (order == np.arange(len(order))).all() or (self._left is not None and self._left <= 0):
            return
        try:
            solution = self._exact(in_order(self.task, order), share)
        except AcceleratorError:  # native finds no place for what must have one
            return
        assert solution.report is not None
        assert self.best.report is not None
        if solution.report.latency_ps < self.best.report.latency_ps:
            self.order, self.best = order, solution


def ground_of(task: Task, freedom: Freedom) -> Ground:
    """Return what orders of a task are valued by."""
    program, tensors = task.program, task.program.num_tensors
    backing = np.full(tensors, task.backing)
    alone = move_costs(task, backing)
    saved = np.zeros((tensors, task.backing))
    for level in range(task.backing):
        missing = move_costs(task, np.full(tensors, level))[:, task.backing]
        saved[:, level] = np.where(program.is_placeable, np.maximum(missing - alone[:, level], 0) / 2, 0)
    pairs, edges = program.use_tensor[program.inplace], dependences(program)
    stays = is_resident(task)
    return Ground(
        costs=task.costs,
        use_ptr=program.use_ptr,
        use_tensor=program.use_tensor,
        touching=_lists(program.use_tensor, program.use_op, tensors),
        size=program.tensor_bytes,
        stays=stays.astype(np.int64),
        early=((program.producer < 0) & ~stays).astype(np.int64),
        saved=saved,
        capacity=task.capacities[:-1].copy(),
        own=np.ascontiguousarray(freedom.own),
        ahead=freedom.ahead,
        before=_lists(edges[:, 1], edges[:, 0], program.num_ops),
        after=_lists(edges[:, 0], edges[:, 1], program.num_ops),
        takes=_lists(pairs[:, 1], pairs[:, 0], tensors),
        gives=_lists(pairs[:, 0], pairs[:, 1], tensors),
    )


def _lists(of: Ints, items: Ints, count: int) -> tuple[Ints, Ints]:
    """Return the items of each of `count` lists: int64[count + 1], where each begins, and the items, list by list."""
    order = np.argsort(of, kind="stable")
    return np.searchsorted(of[order], np.arange(count + 1)), items[order]
