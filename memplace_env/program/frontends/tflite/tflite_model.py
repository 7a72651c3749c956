"""Records of a .tflite file's contents, without the bytes of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memplace_env.program.lowering.graph_values import Array, Shape


def custom(name: str) -> str:
    """Return how a custom operator is called in messages and in the table of operators."""
    return f"custom operator {name!r}"


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the file.

    Attributes:
        name: unique in the file.
        shape: dims; -1 for an open one, otherwise 0 or less only in damaged files.
        element_type: an ONNX `TensorProto.DataType`.
        data: contents of small integer constants, None if the file has none.
        variable: whether it keeps its contents from one inference to the next.
        sparse: whether the file stores its elements other than zero alone.
    """

    name: str
    shape: Shape
    element_type: int
    data: Array | None
    variable: bool
    sparse: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One operator of the file; its methods raise ValueError where the file lacks what they return.

    Attributes:
        index: position in execution order.
        op_type: TFLite's name of the operator.
        inputs: by position, None where one is absent.
        outputs: by position, None where one is absent.
        options: its table of options as the `tflite` package reads it, None if it has none.
    """

    index: int
    op_type: str
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    options: Any

    def __str__(self) -> str:
        return f"operator {self.index} ({self.op_type})"

    def needed(self, position: int) -> Tensor:
        """Return the tensor at a required input position."""
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if tensor is None:
            raise ValueError(f"input {position} is missing")
        return tensor

    @property
    def result(self) -> Tensor:
        """Output 0, which is required."""
        tensor = self.outputs[0] if self.outputs else None
        if tensor is None:
            raise ValueError("there is no result")
        return tensor

    def contents(self, position: int) -> Array:
        """Return the contents of a required constant input."""
        data = self.needed(position).data
        if data is None:
            raise ValueError(f"the contents of input {position} are missing, and the operator's work depends on them")
        return data

    def text(self, name: str) -> str:
        """Return a text among the options, by the name of its accessor; empty if there is no such option."""
        found = self._read(name)
        return found.decode(errors="replace") if isinstance(found, bytes) else ""

    def option(self, name: str, default: int = 0) -> int:
        """Return a number among the options, by the name of its accessor; the default if there is no such option."""
        found = self._read(name)
        return default if found is None else int(found)

    def _read(self, name: str) -> Any:
        accessor = getattr(self.options, name, None)
        try:
            return None if accessor is None else accessor()
        except Exception as error:  # the package checks nothing, so damaged offsets raise anything
            raise ValueError(f"its option {name} cannot be read") from error


@dataclass(frozen=True, slots=True)
class TfliteModel:
    """A graph of a file, the first one unless another calls it.

    Attributes:
        calls: its operators in execution order.
        inputs: by position.
        outputs: by position.
        graphs: by number those that its control flow calls, and that these call.
        unused: number of the file's graphs that nothing calls.
    """

    calls: tuple[Call, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    graphs: Mapping[int, TfliteModel] = field(default_factory=dict)
    unused: int = 0
