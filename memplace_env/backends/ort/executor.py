"""Execution of a task's network in the memory of any plan for it."""

from __future__ import annotations

import threading
import time
from typing import Final

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.ort.arena_layout import ArenaLayout, Arenas
from memplace_env.backends.ort.course import Course
from memplace_env.backends.ort.execution_result import Execution
from memplace_env.backends.ort.inputs import Inputs
from memplace_env.backends.ort.network import Progress, network_of, whole
from memplace_env.backends.ort.plan_steps import CopyMoment
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import require_valid, violations
from memplace_env.placement.workloads import named_file
from memplace_env.program.model_file import format_of

_NOWHERE: Final = ("program", "accelerator", "range")
"""Rules of the validator without which some use or copy of a plan has no address."""


class Executor:
    """A task's network, ready to run in the memory of any plan for that task.

    It has one session of ONNX Runtime for each op of the ONNX file, which reads and writes the arenas only, and one of
    the whole model, whose results every op's must equal, but for `TOLERANCE` and `ROUNDING`. For a .tflite file these
    are models for TensorFlow Lite Micro, which runs on copies of the bytes in the arenas. There is one set of
    arenas: threads that share an executor run their plans one after the other.

    Example:
        >>> from memplace_env import resolve_task
        >>> from memplace_env.placement.compiler import native_plan
        >>> task = resolve_task("AlexNet", "nnp-i")
        >>> Executor(task).run(native_plan(task), inferences=1).right
        True

    Args:
        task: its program comes from an ONNX or .tflite file.
        seed: seed of weights that the file lacks, and of the inputs.
        inputs: arrays by name, or the path of an .npz file; drawn from the seed if None.
        progress: called for each op that is prepared.

    Attributes:
        task: the plans' task.
        plain_seconds: seconds of the run of the whole model.
        setup_seconds: seconds of everything else before the first plan.
        drawn: number of constants drawn from the seed.

    Raises:
        ExecutionError: naming what cannot be executed, or a negative seed.
    """

    def __init__(self, task: Task, *, seed: int = 0, inputs: Inputs = None, progress: Progress | None = None) -> None:
        began = time.perf_counter()
        self.task = task
        workload = task.settings.get("workload")
        micro = bool(task.program.op_nodes) and workload is not None and format_of(named_file(workload)) == ".tflite"
        network = network_of
        if micro:
            from memplace_env.backends.ort.micro_network import micro_network_of as network  # needs other extras
        self._network = network(task, seed, inputs, progress or _silent)
        self._layout = ArenaLayout(task, self._network)
        self._memory = Arenas(self._layout)
        self._free = threading.Lock()
        self.drawn = self._network.drawn
        self.plain_seconds = self._network.plain_seconds
        self.setup_seconds = time.perf_counter() - began - self.plain_seconds

    @property
    def arena_bytes(self) -> int:
        """Bytes of all arenas together."""
        return sum(self._layout.arena_bytes)

    @property
    def scale(self) -> int:
        """Bytes of the arenas for each byte of the plan, see `ArenaLayout`."""
        return self._layout.scale

    def run(
        self,
        plan: MemoryPlan,
        *,
        inferences: int = 3,
        copies: CopyMoment | str = CopyMoment.LATEST,
        seed: int = 0,
        progress: Progress | None = None,
        even_if_invalid: bool = False,
    ) -> Execution:
        """Execute a plan and compare each op's results with the plain run's.

        Args:
            plan: a plan for the task.
            inferences: number of inferences on the same inputs; resident weights are loaded once.
            copies: moment of copies within their windows.
            seed: seed of `CopyMoment.RANDOM`.
            progress: called for each op that has run.
            even_if_invalid: execute plans that the validator refuses, for tests of this comparison.

        Raises:
            PlanError: the plan is not valid, or not for the task.
            ExecutionError: `inferences`, `copies` or `seed` is out of range, or an invalid plan leaves a use without an
                address.
        """
        inferences, seed = whole("inferences", inferences, 1), whole("seed", seed, 0)
        try:
            moment = CopyMoment(copies)
        except (TypeError, ValueError):
            raise ExecutionError(f"copies is {copies!r}; it must be one of: {', '.join(CopyMoment)}.") from None
        if not even_if_invalid or any(violation.rule in _NOWHERE for violation in violations(self.task, plan)):
            require_valid(self.task, plan)
        with self._free:
            course = Course(self.task, self._network, self._layout, self._memory, plan)
            return course.run(inferences, moment, seed, progress or _silent)


def _silent() -> None:
    pass
