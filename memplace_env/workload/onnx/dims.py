"""Binds the symbolic dimensions of a model's inputs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from onnx import GraphProto, TensorProto, TypeProto, ValueInfoProto

from memplace_env.errors import WorkloadError
from memplace_env.workload.onnx.values import Value, checked_value

LARGEST_DIM = 2**31 - 1
"""Of one axis; more is a mistake."""

_BATCH_NAME = re.compile(r"n|b|bs|\w*batch\w*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InputShape:
    """A graph input as the file declares it.

    Attributes:
        name: of the input.
        dims: each a size, or the name of a symbolic dim.
        element_type: ONNX `TensorProto.DataType`.
    """

    name: str
    dims: tuple[int | str, ...]
    element_type: int


def input_shapes(graph: GraphProto) -> list[InputShape]:
    """Graph inputs that are not initialisers, in file order. A dim without a name is called `input[axis]`."""
    constant = {tensor.name for tensor in graph.initializer}
    return [_declared(value) for value in graph.input if value.name not in constant]


def symbolic_dims(inputs: list[InputShape]) -> list[str]:
    """Names of the symbolic dims, in order of appearance."""
    return list(dict.fromkeys(dim for value in inputs for dim in value.dims if isinstance(dim, str)))


def bind(
    inputs: list[InputShape], live: set[str], batch: int | None, dims: Mapping[str, int] | None
) -> dict[str, Value]:
    """Graph inputs with every dim bound, by name; those that are not live are left out.

    Args:
        inputs: from `input_shapes`.
        live: names of the inputs that the outputs depend on.
        batch: size of the batch dim, see `load_onnx`.
        dims: sizes of symbolic dims by name.

    Raises:
        WorkloadError: an impossible size, an unknown name, a name bound twice, or a dim left unbound.
    """
    sizes = {name: _checked_size(f"dims[{name!r}]", size) for name, size in (dims or {}).items()}
    names = symbolic_dims(inputs)
    for name in sizes:
        if name not in names:
            listed = ", ".join(names) if names else "none, all its dims are fixed"
            raise WorkloadError(f"The model has no symbolic dim {name!r}; it has: {listed}.")
    inputs = [value for value in inputs if value.name in live]
    if batch is not None:
        inputs = _with_batch(inputs, names, _checked_size("batch", batch), sizes)
    return {value.name: _bound(value, sizes) for value in inputs}


def rebatches(inputs: list[InputShape], batch: int | None) -> bool:
    """Whether binding `batch` overwrites a leading dim that the file fixes at 1."""
    if batch in (None, 1) or any(map(_is_batch, symbolic_dims(inputs))):
        return False
    return any(value.dims and value.dims[0] == 1 for value in inputs)


def _declared(value: ValueInfoProto) -> InputShape:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        what = (kind or "nothing").removesuffix("_type")
        raise WorkloadError(f"The graph input {value.name!r} is declared as {what}; only tensors are supported.")
    tensor: TypeProto.Tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        raise WorkloadError(f"The graph input {value.name!r} has no shape; export the model with one.")
    if tensor.elem_type == TensorProto.UNDEFINED:
        raise WorkloadError(f"The graph input {value.name!r} has no element type; the file is damaged.")
    return InputShape(value.name, tuple(_declared_dims(value.name, tensor)), tensor.elem_type)


def _declared_dims(name: str, tensor: TypeProto.Tensor) -> Iterator[int | str]:
    for axis, dim in enumerate(tensor.shape.dim):
        # Some exporters write -1 where they mean "any size"; 0 is a size, that of an empty cache.
        if dim.HasField("dim_value") and dim.dim_value >= 0:
            yield dim.dim_value
        else:
            yield dim.dim_param or f"{name}[{axis}]"


def _is_batch(name: str) -> bool:
    return _BATCH_NAME.fullmatch(name) is not None


def _with_batch(inputs: list[InputShape], names: list[str], batch: int, sizes: dict[str, int]) -> list[InputShape]:
    """Binds the batch dim: in `sizes` if the model names it, otherwise in the leading dims themselves."""
    named = list(filter(_is_batch, names))
    for name in named:
        if name in sizes:
            raise WorkloadError(f"The dim {name!r} is bound twice, by batch and by dims; pass one of them.")
        sizes[name] = batch
    if named:
        return inputs
    result = [_with_leading_dim(value, batch, sizes) for value in inputs]
    if not any(value.dims and value.dims[0] == batch for value in result):
        raise WorkloadError(f"batch={batch} cannot be bound: no input of the model has a leading dim that is free.")
    return result


def _with_leading_dim(value: InputShape, batch: int, sizes: Mapping[str, int]) -> InputShape:
    """The input with `batch` as its leading dim, if that is 1 or a symbolic dim that has no size yet."""
    free = value.dims and value.dims[0] not in sizes and (value.dims[0] == 1 or isinstance(value.dims[0], str))
    return InputShape(value.name, (batch, *value.dims[1:]), value.element_type) if free else value


def _bound(value: InputShape, sizes: Mapping[str, int]) -> Value:
    """The input with all dims known."""
    shape = []
    for dim in value.dims:
        if isinstance(dim, str) and dim not in sizes:
            how = f"pass batch=1 or dims={{{dim!r}: 1}}" if _is_batch(dim) else f"pass dims={{{dim!r}: ...}}"
            raise WorkloadError(f"The dim {dim!r} of the graph input {value.name!r} has no size; {how}.")
        shape.append(sizes[dim] if isinstance(dim, str) else dim)
    return checked_value(f"The graph input {value.name!r}", tuple(shape), value.element_type)


def _checked_size(what: str, size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 1 <= size <= LARGEST_DIM:
        raise WorkloadError(f"{what} is {size!r}; a dim is a whole number from 1 to {LARGEST_DIM}.")
    return int(size)
