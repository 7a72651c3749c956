"""The Task: what is to be placed, where, at what cost, and who judges; made once and handed on whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from memplace_env.accelerator import STREAMED, Accelerator
from memplace_env.costs import Costs
from memplace_env.workload.program import Program

if TYPE_CHECKING:
    from memplace_env.simulator.protocol import Simulator

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Task:
    """A program on a chip. What is derived from it is computed once and kept on it, see `derived`.

    Attributes:
        program: what is placed.
        accelerator: where.
        costs: what everything takes there.
        simulator: who judges plans. None: the cost arrays do, exactly and fast, so that bounds and exact solvers hold;
            else a black box, which only running it tells anything about.
        settings: what made the program, as plain JSON values; goes into every plan, so that it can be replayed.
    """

    program: Program
    accelerator: Accelerator
    costs: Costs
    simulator: Simulator | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    _derived: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def is_black_box(self) -> bool:
        """Whether a simulator judges plans, rather than the cost arrays."""
        return self.simulator is not None

    @property
    def backing(self) -> int:
        """Number of the backing memory, L-1."""
        return self.accelerator.backing

    @property
    def fits(self) -> bool:
        """Whether the backing memory holds the program, see `Program.footprint`."""
        return self.program.footprint <= self.accelerator.levels[-1].capacity_bytes

    @property
    def streams_weights(self) -> bool:
        """Whether each inference starts with the weights in the backing memory."""
        return self.accelerator.weights == "streamed"

    def judged_by(self, simulator: Simulator) -> Task:
        """The task with another judge who says the same: what is derived is kept in common."""
        task = replace(self, simulator=simulator)
        object.__setattr__(task, "_derived", self._derived)
        return task

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds what the task is made of; the copy derives the rest anew."""
        return Task, (self.program, self.accelerator, self.costs, self.simulator, self.settings)


def derived(make: Callable[Concatenate[Task, P], T]) -> Callable[Concatenate[Task, P], T]:
    """A function of a task, and of further hashable arguments, whose value is computed once and kept on the task."""

    def kept(task: Task, /, *args: P.args, **kwargs: P.kwargs) -> T:
        key = (make.__module__, make.__qualname__, args, *kwargs.items())
        if key not in task._derived:
            task._derived[key] = make(task, *args, **kwargs)
        value: T = task._derived[key]
        return value

    update_wrapper(kept, make)
    return kept


def streamed(task: Task) -> Task:
    """The task on the chip with streamed weights: itself, or else a copy with the same costs.

    Its settings name that chip too, so that its plans can be replayed.
    """
    return task if task.streams_weights else _streamed_copy(task)


@derived
def _streamed_copy(task: Task) -> Task:
    settings = dict(task.settings)
    if "accelerator" in settings:
        settings["accelerator"] += STREAMED
    return replace(task, accelerator=task.accelerator.streamed(), settings=settings)
