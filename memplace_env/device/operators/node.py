"""What an operator's function is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from memplace_env.errors import ExecutionError

Kernel = Callable[..., Tensor | tuple[Tensor, ...]]
"""A node's results of all its inputs, None for those that are left out; it never waits for the device."""


class Node(NamedTuple):
    """A node of a network with static shapes.

    Attributes:
        op_type: of the default domain of ONNX.
        name: for messages.
        attributes: as plain Python, tensors in the host.
        constants: in the host, those inputs that are known before the network runs, by position.
        shapes: of all inputs, None for those that are left out.
        outputs: how many there are.
        opset: version of the operators.
        device: where it runs, in PyTorch's words.
    """

    op_type: str
    name: str
    attributes: Mapping[str, Any]
    constants: Mapping[int, Tensor]
    shapes: tuple[tuple[int, ...] | None, ...]
    outputs: int
    opset: int
    device: str

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def has(self, at: int) -> bool:
        """Whether an input is there."""
        return at < len(self.shapes) and self.shapes[at] is not None

    def shape(self, at: int) -> tuple[int, ...]:
        """Of an input."""
        shape = self.shapes[at] if at < len(self.shapes) else None
        if shape is None:
            raise self.error(f"its input {at} is missing")
        return shape

    def constant(self, at: int) -> Tensor:
        """An input that says what shape the result has, in the host.

        Raises:
            ExecutionError: its numbers arise only when the network runs.
        """
        if at not in self.constants:
            raise self.error(f"its input {at} decides about shapes and is known only when the network runs")
        return self.constants[at]

    def integers(self, at: int, attribute: str = "") -> tuple[int, ...] | None:
        """Numbers that are an input, or an attribute in older versions; None if neither is there.

        Raises:
            ExecutionError: they arise only when the network runs.
        """
        if self.has(at):
            return tuple(self.constant(at).flatten().tolist())
        given = self.attributes.get(attribute)
        return None if given is None else tuple(given)

    def once(self, at: int, change: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
        """A change of an input, which is made here if that is a constant."""
        if at not in self.constants:
            return change
        changed = change(self.constants[at]).to(self.device)
        return lambda _: changed

    def axis(self, default: int, rank: int) -> int:
        """The attribute of that name, counted from the front."""
        axis = int(self.attribute("axis", default))
        return axis + rank if axis < 0 else axis

    def error(self, why: str) -> ExecutionError:
        """That the node cannot run."""
        return ExecutionError(f"Node {self.name!r} ({self.op_type}) cannot run on a device: {why}.")


Builder = Callable[[Node], Kernel]


def always(kernel: Kernel) -> Builder:
    """For operators without attributes."""
    return lambda node: kernel
