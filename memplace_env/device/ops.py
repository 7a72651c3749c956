"""A network's ops on a device, and what they make there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from memplace_env.device.commands import Stream
from memplace_env.device.dtypes import torch_dtype
from memplace_env.device.lowering import lower
from memplace_env.device.protocol import Device, Work
from memplace_env.errors import ExecutionError
from memplace_env.execution.memory import POISON, raw
from memplace_env.execution.network import Network
from memplace_env.execution.schedule import Run
from memplace_env.execution.submodels import Port
from memplace_env.task import Task
from memplace_env.workload.program import TensorKind

ALIGNMENT: Final = 16
"""Bytes; vectorised kernels read so many at once."""

OP_TOLERANCE: Final = 1e-4
"""Most that an op may be off what ONNX Runtime makes of the same operands on the CPU, as a share of its result's
largest number: single precision, added up in another order. Our choice."""

TOLERANCE: Final = 1e-3
"""Most that a graph output may be off what the same ops made without a plan, as a share of its largest number: kernels
may add up in another order at other addresses. Our choice."""

Places = Mapping[int, Tensor]
"""The bytes of tensors, uint8, by their number."""


class Output(NamedTuple):
    """An output of the graph, in the host.

    Attributes:
        port: which one.
        content: its numbers.
        tolerance: how far the same may be off when it is made again, as a share of the largest number.
    """

    port: Port
    content: Tensor
    tolerance: float


class Ops:
    """A network's ops, as work for a device.

    Args:
        task: the network's.
        network: what is to run.
        device: where.

    Raises:
        ExecutionError: naming a node that the device cannot run.
    """

    def __init__(self, task: Task, network: Network, device: Device) -> None:
        self._task, self._network, self._device = task, network, device
        self._kernels = [lower(model, device.torch_name) for model in network.ops]
        made = {port.tensor: network.expected[port.name] for model in network.ops for port in model.results}
        self._contents = {**network.weights, **network.inputs, **made}

    def work(self, op: int, places: Places) -> Work:
        """What an op does: its operands are read in place if they lie in the device, else fetched; its results, which
        PyTorch makes in memory of its own, are copied to their place.

        Raises:
            ExecutionError: when it is done, if a kernel fails.
        """
        model, kernel, name = self._network.ops[op], self._kernels[op], self._device.torch_name
        operands = [(places[port.tensor], port) for port in model.operands]
        results = [places[port.tensor] for port in model.results]

        def run() -> None:
            try:
                made = kernel([typed(_read(place, name), port) for place, port in operands])
                for place, tensor in zip(results, made, strict=True):
                    place.copy_(tensor.contiguous().view(-1).view(torch.uint8), non_blocking=True)
            except RuntimeError as error:
                raise ExecutionError(self._failed(op, error)) from error

        return run

    def in_device(self, op: int) -> Places:
        """Places in the device, outside of all arenas, for what an op uses, with the plain run's operands."""
        model = self._network.ops[op]
        places = {}
        for port in (*model.results, *model.operands):
            content = bytes_of(self._contents[port.tensor])
            places[port.tensor] = self._device.arena(len(content), fast=True)
            places[port.tensor].copy_(content)
        self.forget(op, places)
        return places

    def forget(self, op: int, places: Places) -> None:
        """Poison what an op made."""
        for port in self._network.ops[op].results:
            places[port.tensor].fill_(POISON)
        self._device.finish()  # the streams do not wait for what is done outside of them

    def check(self, op: int, places: Places) -> None:
        """Compare what an op made of the plain run's operands with what the plain run did.

        Raises:
            ExecutionError: it is something else.
        """
        self._device.finish()
        model, name = self._network.ops[op], self._task.program.op_name[op]
        for port in model.results:
            expected = typed(bytes_of(self._contents[port.tensor]), port)
            if differs(typed(places[port.tensor].cpu(), port), expected, max(OP_TOLERANCE, model.tolerance)):
                raise ExecutionError(
                    f"{self._device.name} computes another {port.name!r} in op {op} ({name}) than ONNX Runtime does. "
                    "Please report the model."
                )

    def outputs(self) -> list[Output]:
        """The graph's outputs as the device itself makes them, without any plan.

        Each op is compared with the plain run as well, on the plain run's operands.

        Raises:
            ExecutionError: naming an op that computes something else.
        """
        program, held, found = self._task.program, dict[int, Tensor](), []
        outputs = set(self._network.source.tensors(TensorKind.OUTPUT))
        for op, model in enumerate(self._network.ops):
            places = self.in_device(op)
            self._run(op, places)
            self.check(op, places)
            self.forget(op, places)
            own = {**places, **{port.tensor: held[port.tensor] for port in model.operands if port.tensor in held}}
            self._run(op, own)
            for port in model.results:
                held[port.tensor] = own[port.tensor]
                if port.tensor in outputs:
                    found.append(Output(port, self._finite(port, own), max(TOLERANCE, model.tolerance)))
            held = {tensor: place for tensor, place in held.items() if program.live_end[tensor] > op}
        return found

    def _finite(self, port: Port, places: Places) -> Tensor:
        """What was made, in the host; the plain run's outputs are all numbers, so these must be."""
        made = typed(places[port.tensor].cpu(), port)
        if made.is_floating_point() and not made.isfinite().all():
            raise ExecutionError(
                f"{self._device.name} computes another {port.name!r} than ONNX Runtime does: it is not finite. Please "
                "report the model."
            )
        return made

    def _run(self, op: int, places: Places) -> None:
        self._device.issue(Stream.COMPUTE, self.work(op, places), Run(op))
        self._device.finish()

    def _failed(self, op: int, error: RuntimeError) -> str:
        name, model = self._task.program.op_name[op], self._network.ops[op]
        shapes = ", ".join("x".join(map(str, port.shape)) or "a number" for port in model.operands)
        reason = " ".join(str(error).split())[:300]
        return f"Op {op} ({name}) fails on {self._device.name}, with operands {shapes}: {reason}"


def bytes_of(content: np.ndarray[Any, Any]) -> Tensor:
    """uint8, in the host."""
    there = raw(content)
    return torch.from_numpy(there if there.flags.writeable else there.copy())


def typed(place: Tensor, port: Port) -> Tensor:
    """Bytes as the numbers that they are."""
    return place.view(torch_dtype(port.element_type)).view(port.shape)


def differs(found: Tensor, expected: Tensor, tolerance: float) -> bool:
    """Whether two tensors are further apart than a share of the largest number; of integers, those of one byte, which
    are rounded from something finer, may be off by one."""
    if not expected.is_floating_point():
        most = 1 if expected.element_size() == 1 and expected.dtype != torch.bool else 0
        return bool(((found.long() - expected.long()).abs() > most).any())
    a, b = found.double(), expected.double()
    finite = b.isfinite()
    if not torch.equal(a[~finite], b[~finite]) or not a[finite].isfinite().all():
        return True
    if not finite.any():
        return False
    return bool((a - b)[finite].abs().max() > tolerance * b[finite].abs().max())


def _read(place: Tensor, torch_name: str) -> Tensor:
    """Bytes that kernels of the device can read as numbers: fetched if they lie in the host, moved if they begin
    where no number may."""
    if str(place.device) != torch_name:
        return place.to(torch_name, non_blocking=True)
    return place if place.data_ptr() % ALIGNMENT == 0 else place.clone()
