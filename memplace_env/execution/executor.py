"""Runs the network of a task in the memory of any plan for it."""

from __future__ import annotations

import threading
import time
from typing import Final

from memplace_env.errors import ExecutionError
from memplace_env.execution.course import Course
from memplace_env.execution.inputs import Inputs
from memplace_env.execution.layout import Layout
from memplace_env.execution.memory import Memory
from memplace_env.execution.network import Progress, network_of, whole
from memplace_env.execution.result import Execution
from memplace_env.execution.schedule import Copies
from memplace_env.plan import MemoryPlan, require_valid, violations
from memplace_env.task import Task

_NOWHERE: Final = ("program", "accelerator", "range")
"""Rules of the validator; a plan that breaks one says of some use or copy nothing that could be done."""


class Executor:
    """A task's network, ready to run in the memory of any plan for that task.

    It is made of the ONNX file anew: one session of ONNX Runtime for each op, which reads and writes at addresses of
    the arenas alone, and one of the whole model, whose results are what every op's must equal, but for `TOLERANCE` and
    `ROUNDING`. There is one set of arenas: threads that share an executor run their plans one after the other.

    Example:
        >>> from memplace_env import resolve_task
        >>> from memplace_env.compiler import native_plan
        >>> task = resolve_task("AlexNet", "nnp-i")
        >>> Executor(task).run(native_plan(task), inferences=1).right
        True

    Args:
        task: its program comes from an ONNX file.
        seed: of weights that the file lacks, and of the inputs.
        inputs: arrays by name, or the path of an .npz file; drawn from the seed if None.
        progress: called for each op that is prepared.

    Attributes:
        task: what it executes plans for.
        plain_seconds: of the run of the whole model.
        setup_seconds: of everything else before the first plan.
        drawn: how many constants are from the seed.

    Raises:
        ExecutionError: naming what cannot be executed, or a negative seed.
    """

    def __init__(self, task: Task, *, seed: int = 0, inputs: Inputs = None, progress: Progress | None = None) -> None:
        began = time.perf_counter()
        self.task = task
        self._network = network_of(task, seed, inputs, progress or _silent)
        self._layout = Layout(task, self._network.source)
        self._memory = Memory(self._layout)
        self._free = threading.Lock()
        self.drawn = self._network.drawn
        self.plain_seconds = self._network.plain_seconds
        self.setup_seconds = time.perf_counter() - began - self.plain_seconds

    @property
    def arena_bytes(self) -> int:
        """Of all arenas together."""
        return sum(self._layout.arena_bytes)

    @property
    def scale(self) -> int:
        """Bytes of the arenas for each byte of the plan, see `Layout`."""
        return self._layout.scale

    def run(
        self,
        plan: MemoryPlan,
        *,
        inferences: int = 3,
        copies: Copies | str = Copies.LATEST,
        seed: int = 0,
        progress: Progress | None = None,
        even_if_invalid: bool = False,
    ) -> Execution:
        """Execute a plan and compare each op's results with the plain run's.

        Args:
            plan: for the task.
            inferences: one after the other, on the same inputs; resident weights are loaded once.
            copies: when in their windows copies are made.
            seed: of `Copies.RANDOM`.
            progress: called for each op that has run.
            even_if_invalid: for tests of this very proof, execute what the validator refuses in a plan of the task.

        Raises:
            PlanError: the plan is not valid, or not for the task.
            ExecutionError: there is no inference to run, no such moment, no such seed, or an invalid plan leaves a use
                without any address.
        """
        inferences, seed = whole("inferences", inferences, 1), whole("seed", seed, 0)
        try:
            moment = Copies(copies)
        except (TypeError, ValueError):
            raise ExecutionError(f"copies is {copies!r}; it must be one of: {', '.join(Copies)}.") from None
        if not even_if_invalid or any(violation.rule in _NOWHERE for violation in violations(self.task, plan)):
            require_valid(self.task, plan)
        with self._free:
            course = Course(self.task, self._network, self._layout, self._memory, plan)
            return course.run(inferences, moment, seed, progress or _silent)


def _silent() -> None:
    pass
