"""The commands of a plan, issued on a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from memplace_env.backends.cuda.commands import Command, Stream, Wait
from memplace_env.backends.cuda.device_protocol import Device, Work
from memplace_env.backends.ort.plan_steps import CopyTensor, RunOp


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
