"""A network on a device: inferences with any plan, issued step by step, timed and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.cuda.device_ops import Ops, bytes_of, differs, typed
from memplace_env.backends.cuda.device_protocol import (
    Command,
    Device,
    Stream,
    Wait,
    Work,
    commands_of,
    median_seconds,
    repeated,
    timed,
)
from memplace_env.backends.ort.arena_layout import POISON, ArenaLayout, ByteSpan, Places
from memplace_env.backends.ort.inputs import Inputs
from memplace_env.backends.ort.network import Progress, network_of
from memplace_env.backends.ort.plan_steps import CopyTensor, RunOp
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task
from memplace_env.placement.validation import require_valid
from memplace_env.program.blocks import inner_ops

RUNS: Final = 50
"""Runs of a plan, of which the median counts. Our choice."""
WARM_RUNS: Final = 5
"""Runs of a plan before it is timed, in which the device's clock rate rises and a graph is uploaded. Our choice."""
OP_RUNS, OP_REPEATS = 20, 100
"""Runs of an op timed alone, of which the median counts, and repeats of it in each run. Our choice."""


class Timing(NamedTuple):
    """Times of a plan's inferences, in seconds.

    Attributes:
        inference_s: float64[N], of each run.
        op_s: float64[T], of each op in one more run with clocks between them, its transfers from and to the host
            included.
        wait_s: float64[T], wait before each op for copies.
        tail_s: time after the last op.
        captured: whether the inference was one graph; else times include the host's work if issuing an inference takes
            longer than the device can be held, about 0.1 s.
    """

    inference_s: NDArray[np.float64]
    op_s: NDArray[np.float64]
    wait_s: NDArray[np.float64]
    tail_s: float
    captured: bool


class Bench:
    """A task's network in the memory of a device and its host.

    The fast level is an arena in the device, as large as the chip's, the backing one lies in the host. An op reads fast
    memory in place; operands in the backing memory are fetched first, and results are copied to their places, on the
    compute stream. Copies of the plan are on the other stream. Kernels write into memory of PyTorch's own.

    Args:
        task: its program comes from an ONNX file, its chip has two levels.
        device: the device it runs on.
        seed: seed of weights that the file lacks, and of the inputs.
        inputs: arrays by name, or the path of an .npz file; drawn from the seed if None.
        progress: called for each op that is prepared.

    Raises:
        ExecutionError: naming what cannot be executed, or what the device computes differently from the plain run.
    """

    def __init__(
        self, task: Task, device: Device, *, seed: int = 0, inputs: Inputs = None, progress: Progress | None = None
    ) -> None:
        if task.accelerator.num_levels != 2:
            raise ExecutionError(
                f"{task.accelerator.name!r} has {task.accelerator.num_levels} memories; a device has two, its own and "
                "its host's: pass a chip with two, such as one that `memplace calibrate --device cuda` writes."
            )
        if task.program.slices is not None:
            raise ExecutionError(
                f"{task.program.name!r} is cut into slices, and the kernels of a device read whole tensors; make the "
                "task and its plans without slices."
            )
        if inner_ops(task.program) != slice(0, task.program.num_ops):
            raise ExecutionError(
                f"{task.program.name!r} has its inputs and outputs in blocks, and a device reads them from the backing "
                "memory and writes them there; make the task and its plans with --io-level backing."
            )
        self.task, self.device = task, device
        self._network = network_of(task, seed, inputs, progress or (lambda: None))
        self._layout = ArenaLayout(task, self._network)
        if self._layout.scale > 1:
            raise ExecutionError(
                f"{task.program.name!r} is deployed in smaller types than its file has, so that the times would be "
                "those of other sizes than planned; pass a file in those types, or the dtype of the file."
            )
        self._arenas = [
            device.arena(size, fast=level < task.backing) for level, size in enumerate(self._layout.arena_bytes)
        ]
        self._ops = Ops(task, self._network, device)
        self._outputs = self._ops.outputs()
        self._captures: bool | None = None

    def measure(self, plan: MemoryPlan, runs: int = RUNS) -> Timing:
        """Time inferences of a plan; the first and the last must have the outputs of the ops without a plan.

        Raises:
            PlanError: the plan is not valid.
            ExecutionError: an op fails there, an output is wrong, or the plan cannot be captured as others were.
        """
        require_valid(self.task, plan)
        places = Places(self.task, plan, self._layout)
        self._load(places)
        steps = Steps(self.device, list(commands_of(self.task, plan)), self._works(places))
        play = self._warm(steps.issue)
        inferences = [
            self._checked(places, play) if number in (0, runs - 1) else timed(self.device, play)
            for number in range(runs)
        ]
        self._checked(places, self._warm(steps.issue_with_clocks))
        return Timing(np.array(inferences), *steps.parts(), captured=bool(self._captures))

    def op_seconds(
        self,
        ops: Sequence[int],
        runs: int = OP_RUNS,
        repeats: int = OP_REPEATS,
        progress: Progress = lambda: None,
    ) -> list[float]:
        """Return the median time of each of these ops in seconds, with all operands and results in the device.

        If one cannot be captured, no inference of the network can; then all are timed as they are issued.

        Raises:
            ExecutionError: an op's results differ from the plain run's.
        """
        seconds = []
        for op in ops:
            places = self._ops.in_device(op)
            capture = self._captures is not False
            replay = repeated(self.device, self._ops.work(op, places), repeats, step=RunOp(op), capture=capture)
            if capture and not replay.captured:
                self._captures = False
                return self.op_seconds(ops, runs, repeats, progress)
            self._ops.forget(op, places)
            seconds.append(median_seconds(self.device, replay.play, runs) / repeats)
            self._ops.check(op, places)
            progress()
        return seconds

    def _warm(self, issue: Work) -> Work:
        """Return a replay of some work that has run as it will be timed.

        All plans of a network are captured, or none: times of graphs and of steps issued one by one do not compare.
        """
        replay = self.device.replay(issue, capture=self._captures is not False)
        if self._captures and not replay.captured:
            raise ExecutionError(
                f"{self.device.name} could not capture an inference of {self.task.program.name!r} as a graph, as it "
                "could others before, so that its time would not compare with theirs; start again."
            )
        self._captures = replay.captured
        for _ in range(WARM_RUNS):
            timed(self.device, replay.play)
        return replay.play

    def _checked(self, places: Places, play: Work) -> float:
        """Return the seconds of an inference and check its outputs.

        All results of earlier inferences are poisoned before, also when it is timed again, so that they cannot stand in
        for data that come too late.
        """
        seconds = timed(self.device, play, before=partial(self._load, places))
        self._check_outputs(places)
        return seconds

    def _load(self, places: Places) -> None:
        """Restore the state before the first inference: weights and inputs, and poison in place of results."""
        plan = places.plan
        for span in (*self._layout.reached(plan), *map(places.backing, places.behind)):
            self._at(span).fill_(POISON)
        for tensor, content in {**self._network.weights, **self._network.inputs}.items():
            if tensor in places.behind:
                self._at(places.backing(tensor)).copy_(bytes_of(content))
        for row in np.flatnonzero(self.task.resident_blocks(plan)).tolist():
            weight = self._network.weights[int(plan.allocations[row, 0])]
            self._at(self._layout.block(plan, row)).copy_(bytes_of(weight))
        self.device.finish()  # the streams do not wait for what is done outside of them

    def _works(self, places: Places) -> Callable[[RunOp | CopyTensor], Work]:
        """Return a function that returns the work of each step of a plan."""

        def work(step: RunOp | CopyTensor) -> Work:
            if isinstance(step, CopyTensor):
                source, target = map(self._at, places.ends(step.row))
                return partial(_copy, target, source)
            return self._ops.work(step.op, {tensor: self._at(span) for tensor, span in places.of_op(step.op).items()})

        return work

    def _check_outputs(self, places: Places) -> None:
        self.device.finish()
        for port, expected, tolerance in self._outputs:
            output = typed(self._at(places.backing(port.tensor)), port)
            if differs(output, expected, tolerance):
                raise ExecutionError(
                    f"{self.device.name} computes another {port.name!r} with this plan than without, so that its time "
                    "is meaningless. Please report the model and the plan."
                )

    def _at(self, span: ByteSpan) -> Tensor:
        return self._arenas[span.level][span.start : span.stop]


def _copy(target: Tensor, source: Tensor) -> None:
    target.copy_(source, non_blocking=True)


class Steps:
    """The commands of a plan on a device, and the clocks of their last issue.

    Args:
        device: the device.
        commands: in the order in which they are issued.
        work: returns the work of a step.
    """

    def __init__(self, device: Device, commands: Sequence[Command], work: Callable[[RunOp | CopyTensor], Work]) -> None:
        self._device = device
        self._commands = commands
        self._work = {command: work(command) for command in commands if not isinstance(command, Wait)}
        self._awaited = {command.step for command in commands if isinstance(command, Wait)}
        self._clocks: list[Any] = []

    def issue(self) -> None:
        """Issue one inference."""
        self._issue(lambda: None)

    def issue_with_clocks(self) -> None:
        """Issue one inference with clocks at its begin and end and around each op."""
        self._clocks.clear()
        self._issue(lambda: self._clocks.append(self._device.clock(Stream.COMPUTE)))

    def parts(self) -> tuple[Any, Any, float]:
        """Return the seconds of each op, before each op, and after the last, by the clocks."""
        # Clocks: begin, then start and end of each op, then end. So even intervals are waits, odd ones ops.
        between = [self._device.seconds(*pair) for pair in zip(self._clocks[:-1], self._clocks[1:], strict=True)]
        return np.array(between[1::2]), np.array(between[:-1:2]), between[-1]

    def _issue(self, tick: Callable[[], None]) -> None:
        tick()
        marks: dict[RunOp | CopyTensor | None, Any] = {None: self._device.mark(Stream.COMPUTE)}
        for command in self._commands:
            if isinstance(command, Wait):
                self._device.wait(command.stream, marks[command.step])
                continue
            runs = isinstance(command, RunOp)
            stream = Stream.COMPUTE if runs else Stream.COPY
            if runs:
                tick()
            self._device.issue(stream, self._work[command], command)
            if runs:
                tick()
            if command in self._awaited:
                marks[command] = self._device.mark(stream)
        tick()
