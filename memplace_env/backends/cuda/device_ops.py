"""A network's ops on a device, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.cuda.device_protocol import Device, Stream, Work
from memplace_env.backends.cuda.operators.node import torch_dtype
from memplace_env.backends.cuda.torch_lowering import lower
from memplace_env.backends.ort.arena_layout import POISON, raw
from memplace_env.backends.ort.network import Network
from memplace_env.backends.ort.plan_steps import RunOp
from memplace_env.backends.ort.submodels import Port
from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind

ALIGNMENT: Final = 16
"""Alignment of operands in bytes: vectorised kernels read as many at once."""

OP_TOLERANCE: Final = 1e-4
"""Largest difference between an op's result and that of ONNX Runtime on the CPU from the same operands, as a fraction
of the result's largest number: single precision, added up in another order. Our choice."""

TOLERANCE: Final = 1e-3
"""Largest difference between a graph output with a plan and without, as a fraction of its largest number: kernels may
add up in another order at other addresses. Our choice."""

Places = Mapping[int, Tensor]
"""Bytes of tensors, uint8, by tensor number."""


class Output(NamedTuple):
    """An output of the graph, in the host.

    Attributes:
        port: the output.
        content: its numbers.
        tolerance: largest difference of another computation of it, as a fraction of the largest number.
    """

    port: Port
    content: Tensor
    tolerance: float


class Ops:
    """A network's ops, as work for a device.

    Args:
        task: the network's task.
        network: the network to run.
        device: the device to run it on.

    Raises:
        ExecutionError: naming a node that the device cannot run.
    """

    def __init__(self, task: Task, network: Network, device: Device) -> None:
        self._task, self._network, self._device = task, network, device
        self._kernels = [lower(model, device.torch_name) for model in network.ops]

    def work(self, op: int, places: Places) -> Work:
        """Return an op as work.

        Operands in the device are read in place, others are fetched; results, which PyTorch makes in memory of its own,
        are copied to their places.

        Raises:
            ExecutionError: when the work is done, if a kernel fails.
        """
        model, kernel, name = self._network.ops[op], self._kernels[op], self._device.torch_name
        operands = [(places[port.tensor], port) for port in model.operands]
        results = [places[port.tensor] for port in model.results]

        def run() -> None:
            try:
                computed = kernel([typed(_read(source, name), port) for source, port in operands])
                for target, tensor in zip(results, computed, strict=True):
                    target.copy_(tensor.contiguous().view(-1).view(torch.uint8), non_blocking=True)
            except RuntimeError as error:
                raise ExecutionError(self._failed(op, error)) from error

        return run

    def in_device(self, op: int) -> Places:
        """Allocate an op's tensors in the device, outside of all arenas, with the plain run's operands."""
        model = self._network.ops[op]
        places = {}
        for port in (*model.results, *model.operands):
            content = bytes_of(self._network.contents[port.tensor])
            places[port.tensor] = self._device.arena(len(content), fast=True)
            places[port.tensor].copy_(content)
        self.forget(op, places)
        return places

    def forget(self, op: int, places: Places) -> None:
        """Poison an op's results."""
        for port in self._network.ops[op].results:
            places[port.tensor].fill_(POISON)
        self._device.finish()  # the streams do not wait for copies outside of them

    def check(self, op: int, places: Places) -> None:
        """Compare an op's results from the plain run's operands with the plain run's results.

        Raises:
            ExecutionError: they differ.
        """
        self._device.finish()
        model, name = self._network.ops[op], self._task.program.op_name[op]
        for port in model.results:
            expected = typed(bytes_of(self._network.contents[port.tensor]), port)
            if differs(typed(places[port.tensor].cpu(), port), expected, max(OP_TOLERANCE, model.tolerance)):
                raise ExecutionError(
                    f"{self._device.name} computes another {port.name!r} in op {op} ({name}) than ONNX Runtime does. "
                    "Please report the model."
                )

    def outputs(self) -> list[Output]:
        """Compute the graph's outputs on the device without a plan.

        Each op is also compared with the plain run, on the plain run's operands.

        Raises:
            ExecutionError: naming an op whose results differ.
        """
        program, computed, delivered = self._task.program, dict[int, Tensor](), []
        outputs = set(self._network.source.tensors(TensorKind.OUTPUT))
        for op, model in enumerate(self._network.ops):
            places = self.in_device(op)
            self._run(op, places)
            self.check(op, places)
            self.forget(op, places)
            own = {
                **places,
                **{port.tensor: computed[port.tensor] for port in model.operands if port.tensor in computed},
            }
            self._run(op, own)
            for port in model.results:
                computed[port.tensor] = own[port.tensor]
                if port.tensor in outputs:
                    delivered.append(Output(port, self._finite(port, own), max(TOLERANCE, model.tolerance)))
            computed = {tensor: content for tensor, content in computed.items() if program.live_end[tensor] > op}
        return delivered

    def _finite(self, port: Port, places: Places) -> Tensor:
        """Fetch an output and require finite numbers, as the plain run's outputs are."""
        output = typed(places[port.tensor].cpu(), port)
        if output.is_floating_point() and not output.isfinite().all():
            raise ExecutionError(
                f"{self._device.name} computes another {port.name!r} than ONNX Runtime does: it is not finite. Please "
                "report the model."
            )
        return output

    def _run(self, op: int, places: Places) -> None:
        self._device.issue(Stream.COMPUTE, self.work(op, places), RunOp(op))
        self._device.finish()

    def _failed(self, op: int, error: RuntimeError) -> str:
        name, model = self._task.program.op_name[op], self._network.ops[op]
        shapes = ", ".join("x".join(map(str, port.shape)) or "a number" for port in model.operands)
        reason = " ".join(str(error).split())[:300]
        return f"Op {op} ({name}) fails on {self._device.name}, with operands {shapes}: {reason}"


def bytes_of(content: np.ndarray[Any, Any]) -> Tensor:
    """Return an array's bytes as uint8 in the host."""
    content_bytes = raw(content)
    return torch.from_numpy(content_bytes if content_bytes.flags.writeable else content_bytes.copy())


def typed(content: Tensor, port: Port) -> Tensor:
    """View bytes with a port's type and shape."""
    return content.view(torch_dtype(port.element_type)).view(port.shape)


def differs(computed: Tensor, expected: Tensor, tolerance: float) -> bool:
    """Return whether two tensors differ by more than a fraction of the largest number.

    Integers of one byte, which are rounded from finer numbers, may be off by one, other integers not at all.
    """
    if not expected.is_floating_point():
        most = 1 if expected.element_size() == 1 and expected.dtype != torch.bool else 0
        return bool(((computed.long() - expected.long()).abs() > most).any())
    a, b = computed.double(), expected.double()
    finite = b.isfinite()
    if not torch.equal(a[~finite], b[~finite]) or not a[finite].isfinite().all():
        return True
    if not finite.any():
        return False
    return bool((a - b)[finite].abs().max() > tolerance * b[finite].abs().max())


def _read(content: Tensor, torch_name: str) -> Tensor:
    """Return bytes that kernels of the device can read: fetched if they lie in the host, copied if not aligned."""
    if str(content.device) != torch_name:
        return content.to(torch_name, non_blocking=True)
    return content if content.data_ptr() % ALIGNMENT == 0 else content.clone()
