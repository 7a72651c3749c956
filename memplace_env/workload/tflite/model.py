"""What a .tflite file says, without the bytes of its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from memplace_env.workload.lowered.values import Array, Shape


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the file.

    Attributes:
        name: unlike all others'.
        shape: dims; -1 where the file leaves one open, and 0 or less only in damaged files otherwise.
        element_type: an ONNX `TensorProto.DataType`.
        data: contents of small integer constants, None if the file has none.
        variable: it keeps its contents from one inference to the next.
    """

    name: str
    shape: Shape
    element_type: int
    data: Array | None
    variable: bool


@dataclass(frozen=True, slots=True)
class Call:
    """One operator of the file, in execution order.

    Attributes:
        index: its place.
        op_type: what TFLite calls the operator.
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
        """The tensor at an input position that the operator cannot do without.

        Raises:
            ValueError: it is absent.
        """
        tensor = self.inputs[position] if position < len(self.inputs) else None
        if tensor is None:
            raise ValueError(f"input {position} is missing")
        return tensor

    @property
    def result(self) -> Tensor:
        """Output 0.

        Raises:
            ValueError: it is absent.
        """
        tensor = self.outputs[0] if self.outputs else None
        if tensor is None:
            raise ValueError("there is no result")
        return tensor

    def contents(self, position: int) -> Array:
        """Contents of a constant input that the file cannot leave out.

        Raises:
            ValueError: they are not there.
        """
        data = self.needed(position).data
        if data is None:
            raise ValueError(
                f"the contents of input {position} are missing, and what the operator does depends on them"
            )
        return data

    def option(self, name: str, default: int = 0) -> int:
        """A number among the options, by the name of its accessor; the default if there is no such option.

        Raises:
            ValueError: the file is damaged there.
        """
        accessor = getattr(self.options, name, None)
        if accessor is None:
            return default
        try:
            return int(accessor())
        except Exception as error:  # the package raises what it trips over
            raise ValueError(f"its option {name} cannot be read") from error


@dataclass(frozen=True, slots=True)
class Model:
    """The one graph of a file."""

    calls: tuple[Call, ...]
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
