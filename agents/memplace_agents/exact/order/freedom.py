"""Facts that hold in every order of a program's ops."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import AgentError
from memplace_env.machine.accelerator.accelerator import BACKING
from memplace_env.machine.costs import Tiled, costs_of, resolve_cost_model
from memplace_env.machine.costs.cost_model import BUILT_IN
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.roles import with_penalties
from memplace_env.placement.task import Task
from memplace_env.program.blocks import inner_ops
from memplace_env.program.program import Ints, TensorKind
from memplace_env.program.reordering import dependences
from memplace_env.program.slicing import cuts_of

MOST_OPS: Final = 5_000
"""Most ops of a program whose orders are bounded: what is known of each two of them takes this much squared."""


class Freedom(NamedTuple):
    """T ops, K tensors.

    Attributes:
        before: bool[T, T], whether the first op comes before the second in every order.
        always: bool[T, K], whether a tensor that lives in a fast level has a block there during the op in every order;
            of resident weights only where they are used.
        maybe: bool[T, K], whether it has in some order but not in all.
        own, ahead: int64[T], bytes of the fastest level that each op keeps, and that it keeps in the op before.
        least: int64[T], the fewest bytes that are kept in the fastest level during each op, over all orders.
    """

    before: NDArray[np.bool_]
    always: NDArray[np.bool_]
    maybe: NDArray[np.bool_]
    own: Ints
    ahead: Ints
    least: Ints

    @property
    def free(self) -> Ints:
        """int64[F, 2], the pairs of ops, lower first, that no dependence puts in an order."""
        pairs: Ints = np.argwhere(np.triu(~self.before, 1))
        return pairs


def freedom_of(task: Task) -> Freedom:
    """Return what is true in all orders of a task's program.

    Raises:
        AgentError: if its costs are not those of a built-in cost model, so that nothing is known of other orders, or it
            has more than `MOST_OPS` ops.
    """
    program = task.program
    if program.num_ops > MOST_OPS:
        raise AgentError(f"Orders of {program.num_ops:,} ops are not searched; pass --order memory.")
    own, ahead = _reserved(task)
    reach = np.eye(program.num_ops, dtype=bool)  # reach[s, t]: s is t, or comes before it in every order
    for before, after in dependences(program).tolist():  # by the later op: those of the earlier one are complete
        reach[:, after] |= reach[:, before]
    before = reach & ~np.eye(program.num_ops, dtype=bool)
    # A tensor is there from the first of its uses to the last: at an op that is one, or stands between two.
    by_tensor = np.argsort(program.use_tensor, kind="stable")
    ops, owner = program.use_op[by_tensor], program.use_tensor[by_tensor]
    begin = np.minimum(np.searchsorted(owner, np.arange(program.num_tensors)), len(ops) - 1)

    def any_use(table: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return bool[T, K], whether the table bool[T, T] is true for any op that uses the tensor."""
        return np.asarray(np.logical_or.reduceat(table[:, ops], begin, axis=1))

    always = any_use(reach.T) & any_use(reach)
    maybe = any_use(~before) & any_use(~before.T) & ~always
    return Freedom(before, always, maybe, own, ahead, _least_reserved(before, own, ahead))


def in_order(task: Task, order: Ints) -> Task:
    """Return the task with its ops in an order int64[T], and costs made anew; `freedom_of` says for which tasks."""
    program = task.program
    cuts, inner = cuts_of(program), inner_ops(program)
    other = resolve_task(
        program.whole,
        task.accelerator,
        costs=_model(task),
        slices=cuts,
        order=order,
        alignment=program.alignment,
        io_level=task.settings.get("io_level", BACKING),
        pins=task.settings.get("pins"),
        copies=task.settings.get("copies"),
    )
    file_order = list(range(inner.stop - inner.start))  # the ends of `blocks.with_ends` are in no file
    own = np.array(task.settings.get("order", file_order))[order[inner] - inner.start].tolist()
    settings = {**task.settings, "order": own}
    if own == file_order:
        del settings["order"]
    return Task(other.program, task.accelerator, other.costs, None, settings, other.whole_costs)


def _model(task: Task) -> str:
    """Return the name of the task's cost model, which `_reserved` has checked."""
    return str(task.settings.get("costs", task.accelerator.cost_model))


def _reserved(task: Task) -> tuple[Ints, Ints]:
    """Return `own` and `ahead`.

    Raises:
        AgentError: if the costs are not those of a built-in model.
    """
    name, program, chip = _model(task), task.program.whole, task.accelerator
    costs = task.costs if task.whole_costs is None else task.whole_costs
    made = costs_of(resolve_cost_model(name), program, chip) if name in BUILT_IN else None
    if made is not None and task.whole_costs is None:
        made = with_penalties(made, program, task.allowed)
    if (
        task.is_black_box
        or made is None
        or not all(np.array_equal(costs[field], made[field]) for field in range(len(made)))
    ):
        raise AgentError(
            "Orders of ops are searched with the built-in simulator and its cost models, which are known to cost an op "
            "the same in every order; leave out --simulator and --costs, or pass --order memory."
        )
    if name == Tiled.name:
        return Tiled().reserved(program, chip)
    return costs.reserved_bytes[:, 0], np.zeros(program.num_ops, dtype=np.int64)


def _least_reserved(before: NDArray[np.bool_], own: Ints, ahead: Ints) -> Ints:
    """Return `least`: beside an op's own bytes those of the op behind it, which is free or depends on it at once."""
    if not ahead.any():
        return own
    steps = before.astype(np.float32)
    behind = (before & ~(steps @ steps > 0)) | ~(before | before.T)
    np.fill_diagonal(behind, False)
    most = np.iinfo(np.int64).max
    least = np.where(behind, ahead, most).min(axis=1)
    return np.where(before.any(axis=1), own + least, own)


def is_resident(task: Task) -> NDArray[np.bool_]:
    """Return bool[K], the weights that stay where they are from run to run."""
    return np.asarray((task.program.tensor_kind == TensorKind.WEIGHT) & (not task.streams_weights))
