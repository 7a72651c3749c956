"""The smallest fast memory in which all inner results of a program have addresses, with a proof.

Results keep the order of ops and their lives, and lie in an operand's place wherever the task allows it. Weights, graph
inputs and outputs stay in the backing memory. Weights that are to lie beside the results all the time take their bytes
in addition, no more and no less, see `address_search`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from memplace_agents.exact.chains import heads, joined
from memplace_env._lib.errors import MemPlaceError, WorkloadError
from memplace_env.machine.costs import CostModel, Costs, costs_of, resolve_cost_model, whole_costs_of
from memplace_env.placement.addresses.address_kernels import place_in_order
from memplace_env.placement.addresses.address_search import Blocks, packing_problem
from memplace_env.placement.addresses.memory_packing import lowest
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, TensorKind

QUESTION = 4_000_000
"""Work of one question whether blocks fit, in blocks visited: a third of a second. Our choice."""


class Arena(NamedTuple):
    """The smallest fast memory that was found for all inner results.

    Attributes:
        size: its bytes.
        bound: bytes; no smaller one exists.
        live: most bytes that an op needs, the bound before any search.
        by_size: bytes by the rule of TensorFlow Lite Micro: largest first, each at the lowest gap. This rule and the
            next put every result in place that may be.
        first_fit: bytes with results in execution order, each at the lowest gap.
        weights: bytes of all weights, which are not in it.
        task: the task of the plan: the one that was given if its chip has room for it, else on a chip of this size.
        plan: all inner results in the fastest level, all else in the backing memory.
    """

    size: int
    bound: int
    live: int
    by_size: int
    first_fit: int
    weights: int
    task: Task
    plan: MemoryPlan

    @property
    def proven(self) -> bool:
        """True if no smaller one exists."""
        return self.size == self.bound


def smallest_arena(task: Task) -> Arena:
    """Return the smallest memory that a search finds; the same on every machine.

    What ops keep for themselves comes on top. A larger memory may let them keep more: the size is that of a memory with
    what they keep in it, the bound that with what they keep in none.

    Raises:
        WorkloadError: for pinned offsets.
    """
    if (task.pinned >= 0).any():
        raise WorkloadError("The smallest memory is looked for without addresses in it; leave out the offsets of pins.")
    rows = _inner_results(task)
    at = bare = resized(task, 0)
    live = _live(bare, rows)
    bound, offset = _search(bare, rows, live)
    size, needs = -1, _needs(bare, rows, offset)
    while needs > size:  # in what they keep in a memory of the size before
        size = needs
        at = resized(task, size)
        if _needs(at, rows, offset) > size:
            offset = _search(at, rows, bound)[1]
        needs = _needs(at, rows, offset)
    chains = joined(task, rows, heads(task, rows, needed=False))
    chains = chains[chains[:, 1] == 0]
    by_size, first_fit = (_by_rule(at, chains, key) for key in (-block_bytes(task, chains), chains[:, 2]))
    if _needs(task, rows, offset) <= task.accelerator.levels[0].capacity_bytes:
        at = task
    use_level = np.where(np.isin(task.program.use_tensor, rows[:, 0]), 0, task.backing)
    plan = at.make_plan(use_level, np.insert(rows, 2, offset, axis=1))
    return Arena(size, bound, live, by_size, first_fit, task.program.bytes_of(TensorKind.WEIGHT), at, plan)


def resized(task: Task, capacity: int) -> Task:
    """Return the task on its chip with so many bytes of the fastest level.

    Costs are made anew by the model that the task names, or stay as they are if they are not that model's.
    """
    fastest, *others = task.accelerator.levels
    levels = (replace(fastest, capacity_bytes=capacity), *others)
    chip = replace(task.accelerator, name=f"{task.accelerator.name}-{capacity}", levels=levels)
    settings = {**task.settings, "accelerator": chip.name}
    model, costs, whole = _model(task), task.costs, task.whole_costs
    if model is not None:
        costs, whole = costs_of(model, task.program, chip), whole_costs_of(model, task.program, chip)
    return Task(task.program, chip, costs, task.simulator, settings, whole)


def same_costs(one: Costs, other: Costs) -> bool:
    """Return whether all arrays are equal."""
    return all(np.array_equal(one[field], other[field]) for field in range(len(one)))


def block_bytes(task: Task, rows: Ints) -> Ints:
    """Return the bytes of a block of each tensor, int64[A]; `rows` as for `address_search.pack`."""
    return task.program.tensor_bytes[rows[:, 0]]


@derived
def _model(task: Task) -> CostModel | None:
    """Return the cost model that made the task's costs, if it is the one that the task names."""
    with suppress(MemPlaceError):  # the model cannot cost this task at all
        model = resolve_cost_model(task.settings.get("costs", task.accelerator.cost_model))
        made = costs_of(model, task.program, task.accelerator)
        if same_costs(task.costs, made):
            return model
    return None


def _inner_results(task: Task) -> Ints:
    """Return int64[A, 4]: each inner result that may lie in level 0, that level, first and last op."""
    program = task.program
    tensor = np.flatnonzero(program.is_placeable & (program.producer >= 0) & task.allowed[:, 0])
    return np.stack([tensor, np.zeros_like(tensor), program.live_start[tensor], program.live_end[tensor]], axis=1)


def _live(task: Task, rows: Ints) -> int:
    """Return the most bytes that an op needs, if as many as may be lie in its operands' places."""
    size, head = block_bytes(task, rows), heads(task, rows, needed=False)
    delta = np.zeros(task.program.num_ops + 1, dtype=np.int64)
    np.add.at(delta, rows[:, 2], size)
    np.subtract.at(delta, rows[:, 3] + 1, size)
    alive = delta.cumsum()[:-1] + task.costs.reserved_bytes[:, 0]
    np.subtract.at(alive, rows[:, 2], np.where(head != np.arange(len(rows)), size, 0))
    return int(alive.max())


def _blocks(task: Task, rows: Ints) -> Blocks:
    """Return the blocks that end below what ops keep of a memory of no bytes."""
    return Blocks.beside(
        block_bytes(task, rows), rows[:, 2], rows[:, 3], -np.append(task.costs.reserved_bytes[:, 0], 0)
    )


def _needs(task: Task, rows: Ints, offset: Ints) -> int:
    """Return the bytes that blocks at these offsets and what ops keep need together."""
    blocks = _blocks(task, rows)
    return int(max((offset + blocks.size - blocks.below).max(initial=0), task.costs.reserved_bytes[:, 0].max()))


def _by_rule(task: Task, rows: Ints, key: Ints) -> int:
    """Return the bytes that blocks need by rising `key`, each at the lowest gap."""
    by_start, offset = np.argsort(rows[:, 2], kind="stable"), np.zeros(len(rows), dtype=np.int64)
    rows = rows[by_start]
    order = np.lexsort((by_start, key[by_start]))
    place_in_order(packing_problem(_blocks(task, rows)), order, False, offset)
    return _needs(task, rows, offset)


def _search(task: Task, rows: Ints, low: int) -> tuple[int, Ints]:
    """Return a bound of at least `low`, which is one, and offsets int64[A], for what ops keep in this task.

    Which results lie in place is tried in two ways, so that neither proves a bound for all. In a third, a result that
    may lie in place comes one op later and beside its operands: it needs no more than any other.
    """
    paired, found = len(task.program.handovers) > 0, []
    holding = replace(task, accelerator=resized(task, low).accelerator)
    for needed in (True, False)[: 1 + paired]:
        head = heads(holding, rows, needed=needed)
        bound, offset = lowest(_blocks(task, joined(task, rows, head)), head == np.arange(len(rows)), low, QUESTION)
        found.append((_needs(task, rows, offset[head]), bound, offset[head]))
    reached, bound, offset = min(found, key=lambda one: one[0])
    if paired and reached > low:
        later = rows.copy()
        later[np.isin(rows[:, 0], task.program.handovers[:, 1]), 2] += 1
        there = later[:, 2] <= later[:, 3]
        bound, _ = lowest(_blocks(task, later[there]), there[there], low, QUESTION)
    return bound, offset
