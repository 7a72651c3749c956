"""Binding of the symbolic dimensions of a model's inputs."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

import numpy as np
from onnx import GraphProto, TensorProto, TypeProto, ValueInfoProto, helper

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import described
from memplace_env.program.frontends.onnx.operator_lookup import operator_of
from memplace_env.program.lowering.graph_values import Value, checked_value, type_name

LARGEST_DIM = 2**31 - 1
"""Largest size of one axis; more is a mistake."""

_UNNAMED = re.compile(r".+\.\d+")
_IN_BRACKETS = re.compile(r"(.+)\[(\d+|\*)\]")
_BATCH_NAME = re.compile(r"n|b|bs|\w*batch\w*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class InputShape:
    """A graph input as declared in the file.

    Attributes:
        name: name of the input.
        dims: for each axis its size, or the name of a symbolic dim.
        element_type: ONNX `TensorProto.DataType`.
    """

    name: str
    dims: tuple[int | str, ...]
    element_type: int


def input_shapes(graph: GraphProto) -> list[InputShape]:
    """Return the graph inputs that are not initialisers, in file order; an unnamed dim is called `input.axis`."""
    constant = {tensor.name for tensor in graph.initializer}
    return [_declared(value) for value in graph.input if value.name not in constant]


def symbolic_dims(inputs: Iterable[InputShape]) -> list[str]:
    """Return the names of the symbolic dims, in order of appearance."""
    return list(dict.fromkeys(dim for value in inputs for dim in value.dims if isinstance(dim, str)))


def inner_dims(graph: GraphProto) -> dict[str, tuple[int | str, ...]]:
    """Return the declared dims of values inside the graph by name, as in `InputShape.dims`; also before a transpose."""
    tensors = {value.name: value.type.tensor_type for value in (*graph.value_info, *graph.output)}
    declared = {name: tuple(_declared_dims(name, t)) for name, t in tensors.items() if t.HasField("shape")}
    for node in graph.node:
        dims = declared.get(node.output[0]) if node.output else None
        if not dims or not node.input or operator_of(node).order is None:
            continue
        # PyTorch's exporter names the number of indices that are not zero only once they are transposed.
        order = next((list(attribute.ints) for attribute in node.attribute if attribute.name == "perm"), [])
        if sorted(order) == [*range(len(dims))]:
            name, turned = node.input[0], (dims[order.index(axis)] for axis in range(len(dims)))
            known = declared.get(name, tuple(f"{name}.{axis}" for axis in range(len(dims))))
            unnamed = (size == f"{name}.{axis}" for axis, size in enumerate(known))
            declared[name] = tuple(b if no else a for a, b, no in zip(known, turned, unnamed, strict=False))
    return declared


def dim_names(declared: Mapping[str, tuple[int | str, ...]]) -> set[str]:
    """Return the names of the dims in the result of `inner_dims`."""
    return {dim for dims in declared.values() for dim in dims if isinstance(dim, str)}


def named_dims(
    name: str, tensor: TypeProto.Tensor, declared: Mapping[str, tuple[int | str, ...]]
) -> tuple[int | str, ...]:
    """Return the dims of a value inside the graph: sizes in `tensor`, else sizes or names `declared` or by axis.

    Empty if the rank is unknown.
    """
    from_file = declared.get(name, ())
    if not tensor.HasField("shape"):
        return from_file
    inferred = tuple(_declared_dims(name, tensor))
    if len(from_file) != len(inferred):
        return inferred
    return tuple(other if isinstance(size, str) else size for size, other in zip(inferred, from_file, strict=True))


@dataclass(frozen=True, slots=True)
class Binding:
    """Graph inputs and the sizes of symbolic dims.

    Attributes:
        inputs: graph inputs that the outputs depend on.
        names: names of the symbolic dims of all graph inputs.
        sizes: sizes of the inputs' symbolic dims, and of dims inside the graph that only the data determine.
        patterns: sizes of all dims whose name matches and that have no size of their own; the last match counts.
        trips: number of rounds of loops for which the data determine it.
        numbers: numbers of inputs of one element, by name.
        assumed: name of the dim that no argument binds and that is taken as 1, None if there is none.
    """

    inputs: tuple[InputShape, ...]
    names: Sequence[str]
    sizes: Mapping[str, int]
    patterns: Mapping[str, int]
    trips: int | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    assumed: str | None = None

    @property
    def values(self) -> dict[str, Value]:
        """The inputs with all dims known, by name.

        Raises:
            WorkloadError: dims have no size, all of which it names, a tensor is larger than any accelerator could
                hold, or a number is passed for what is no input of one element.
        """
        _check_sizes(self.inputs, self.sizes)
        bound = {value.name: _bound(value, self.sizes) for value in self.inputs}
        return bound | {name: _constant(name, bound.get(name), number) for name, number in self.numbers.items()}

    def size_of(self, name: str) -> int | None:
        """Return the size that was passed for a dim, None if there is none."""
        matching = [size for pattern, size in self.patterns.items() if _matching(pattern, [name])]
        return self.sizes.get(name, matching[-1] if matching else None)

    def resized(self, sizes: Mapping[str, int]) -> Binding:
        """Return a copy with other sizes for some dims."""
        return replace(self, sizes={**self.sizes, **sizes})

    def check_used(self, inner: Set[str], asked: Set[str]) -> None:
        """Refuse sizes that mean nothing in the model, once that is loaded.

        Args:
            inner: names of the dims inside the graph, of which a pattern may match some that need no size.
            asked: names of all dims that only the data determine.

        Raises:
            WorkloadError: there is such a size.
        """
        for name in sorted(self.sizes.keys() - asked - {*self.names}):
            raise WorkloadError(f"The model needs no size for the dim {name!r}, as others determine it; leave it out.")
        for pattern in self.patterns:
            if not _matching(pattern, {*self.names, *inner, *asked}):
                raise _no_such_dim(pattern, self.names)


def bind(
    inputs: list[InputShape],
    live: set[str],
    batch: int | None,
    dims: Mapping[str, int] | None,
    inner: Set[str],
    trips: int | None = None,
    values: Mapping[str, float] | None = None,
) -> Binding:
    """Return the live inputs and a size for each dim that the arguments bind, and 1 for a lone free leading dim.

    Args:
        inputs: from `input_shapes`.
        live: names of the inputs that the outputs depend on.
        batch: size of the batch dim, see `load_onnx`.
        dims: sizes of symbolic dims by name, or by patterns with "*" for those that have no size of their own.
        inner: names of the dims inside the graph that the file declares; `value.axis` names one without a name.
        trips: number of rounds of loops for which the data determine it.
        values: numbers of inputs of one element, by name.

    Raises:
        WorkloadError: a size is impossible, or a name is unknown or bound twice.
    """
    names = symbolic_dims(inputs)
    given = {
        _unbracketed(name, {*inner, *names}): _checked_size(f"dims[{name!r}]", size)
        for name, size in (dims or {}).items()
    }
    patterns = {name: size for name, size in given.items() if "*" in name}
    sizes = {name: patterns[pattern] for pattern in patterns for name in _matching(pattern, names)}
    sizes |= {name: size for name, size in given.items() if name not in patterns}
    for name in sizes:
        if name not in names and name not in inner and _UNNAMED.fullmatch(name) is None:
            raise _no_such_dim(name, names)
    inputs = [value for value in inputs if value.name in live]
    if batch is not None:
        inputs = _with_batch(inputs, names, _checked_size("batch", batch), sizes)
    free = [name for name in symbolic_dims(inputs) if name not in sizes]
    assumed = free[0] if len(free) == 1 and any(value.dims[:1] == (free[0],) for value in inputs) else None
    if assumed is not None:
        sizes[assumed] = 1
    return Binding(tuple(inputs), names, sizes, patterns, trips, dict(values or {}), assumed)


def _unbracketed(name: str, known: Set[str]) -> str:
    """Return the name of a dim without a name that was passed as `input[axis]`, which some shells expand."""
    match = _IN_BRACKETS.fullmatch(name)
    return name if match is None or name in known else f"{match[1]}.{match[2]}"


def rebatches(inputs: list[InputShape], batch: int | None) -> bool:
    """Return whether binding `batch` overwrites a leading dim that the file fixes at 1."""
    if batch in (None, 1) or any(map(is_batch, symbolic_dims(inputs))):
        return False
    return any(value.dims and value.dims[0] == 1 for value in inputs)


def how_to_pass(dims: Mapping[str, int | str], batch: int | None = None) -> str:
    """Return sizes as arguments and as flags, for messages."""
    arguments = [] if batch is None else [f"batch={batch}"]
    arguments += [f"dims={{{', '.join(f'{name!r}: {size}' for name, size in dims.items())}}}"] if dims else []
    flags = [] if batch is None else [f"--batch {batch}"]
    flags += [f"--dim {name}={size}" for name, size in dims.items()]
    return f"{', '.join(arguments)} ({' '.join(flags)})"


def _declared(value: ValueInfoProto) -> InputShape:
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        declared = (kind or "nothing").removesuffix("_type")
        raise WorkloadError(f"The graph input {value.name!r} is declared as {declared}; only tensors are supported.")
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
        else:  # "?" stands for no name
            yield f"{name}.{axis}" if dim.dim_param in ("", "?") else dim.dim_param


def is_batch(name: str) -> bool:
    """Return whether `batch` binds a dim of this name."""
    return _BATCH_NAME.fullmatch(name) is not None


def _matching(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern with "*" means."""
    return fnmatch.filter(names, pattern.replace("[", "[[]")) if "*" in pattern else []


def _no_such_dim(name: str, names: Sequence[str]) -> WorkloadError:
    """Return the error of a name or pattern that means no dim of the model; `names` are those of its inputs."""
    listed = ", ".join(names) if names else "none, all its dims are fixed"
    return WorkloadError(f"The model has no symbolic dim {name!r}; it has: {listed}.")


def _with_batch(inputs: list[InputShape], names: list[str], batch: int, sizes: dict[str, int]) -> list[InputShape]:
    """Bind the batch dim: in `sizes` if the model names it, otherwise in the leading dims of the returned inputs."""
    named = list(filter(is_batch, names))
    for name in named:
        if name in sizes:
            raise WorkloadError(f"The dim {name!r} is bound twice, by batch and by dims; pass one of them.")
        sizes[name] = batch
    if named:
        return inputs
    leading = {value.dims[0] for value in inputs if value.dims}
    free = {dim for dim in leading if isinstance(dim, str) and dim not in sizes}
    if not free and not leading & {1, batch}:
        fixed = leading - sizes.keys()
        reason = f"the model fixes it at {fixed.pop()}" if len(fixed) == 1 else "no input has a free leading dim"
        raise WorkloadError(
            f"batch={batch} cannot be bound: {reason}; leave batch out, or export with a dynamic batch."
        )
    sizes.update(dict.fromkeys(free, batch))
    return [
        replace(value, dims=(batch, *value.dims[1:])) if value.dims and value.dims[0] == 1 else value
        for value in inputs
    ]


def _check_sizes(inputs: Iterable[InputShape], sizes: Mapping[str, int]) -> None:
    """Refuse symbolic dims without a size, all at once.

    Raises:
        WorkloadError: naming them, with what to pass.
    """
    missing: dict[str, None] = {}
    phrases = []
    for value in inputs:
        # A dim of several inputs is named at the first of them.
        dims = [dim for dim in symbolic_dims([value]) if dim not in sizes and dim not in missing]
        if dims:
            missing |= dict.fromkeys(dims)
            listed = " and ".join(filter(None, (", ".join(map(repr, dims[:-1])), repr(dims[-1]))))
            phrases.append(f"the dim{'s' if len(dims) > 1 else ''} {listed} of the graph input {value.name!r}")
    if not missing:
        return
    others = [dim for dim in missing if not is_batch(dim)]
    how = how_to_pass(dict.fromkeys(others, "..."), batch=1 if len(others) < len(missing) else None)
    verb = "has" if len(missing) == 1 else "have"
    raise WorkloadError(f"T{' and '.join(phrases)[1:]} {verb} no size; pass {how}.")


def _bound(value: InputShape, sizes: Mapping[str, int]) -> Value:
    """Return the input with the sizes of its symbolic dims."""
    shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in value.dims)
    return checked_value(f"The graph input {value.name!r}", shape, value.element_type)


def _constant(name: str, value: Value | None, number: float) -> Value:
    """Return an input of one element as the constant of a number."""
    if value is None or value.elements != 1:
        what = "is no graph input that the outputs depend on" if value is None else f"has the shape {[*value.shape]}"
        raise WorkloadError(f"{name!r} {what}; values are for graph inputs of one element, so leave it out.")
    given, dtype = np.asarray(number), helper.tensor_dtype_to_np_dtype(value.element_type)
    with np.errstate(all="ignore"):
        data = given.astype(dtype) if given.dtype.kind in "biuf" and given.shape == () else given
    if data.dtype != dtype or (dtype.kind in "biu" and data != given):
        raise WorkloadError(f"values[{name!r}] is {described(number)}, which no {type_name(value.element_type)} is.")
    return replace(value, constant=True, data=data.reshape(value.shape))


def _checked_size(argument: str, size: int) -> int:
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 1 <= size <= LARGEST_DIM:
        raise WorkloadError(f"{argument} is {size!r}; a dim is a whole number from 1 to {LARGEST_DIM}.")
    return int(size)
