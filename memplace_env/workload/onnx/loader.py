"""`load_onnx`: reads a file, binds its dims, infers shapes, lowers nodes to ops, fuses those, builds the arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from onnx import ModelProto

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.assembly import assemble
from memplace_env.workload.lowered.dtypes import computing_dtype
from memplace_env.workload.lowered.fusion import FUSIONS, fuse
from memplace_env.workload.lowered.graph import Graph
from memplace_env.workload.lowered.lowering import lower
from memplace_env.workload.onnx.dims import Binding, bind, inner_dims, input_shapes, rebatches, symbolic_dims
from memplace_env.workload.onnx.inference import infer, live_inputs
from memplace_env.workload.onnx.node_checks import MisfitError
from memplace_env.workload.onnx.reader import read_model
from memplace_env.workload.onnx.traced import advised
from memplace_env.workload.program import FLOAT_BYTES, Program

_STATIC_BATCH: Final = "The model fixes its batch at 1, so batch={} cannot be bound: {} Export it with a dynamic batch."


def load_onnx(
    path: str | os.PathLike[str],
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    dtype: str | None = None,
    fusion: str = "conv",
    name: str | None = None,
) -> Program:
    """Reads an ONNX model as a Program. Weights need only dims and type: external data is never opened.

    Args:
        path: an .onnx file.
        batch: size of the symbolic dims that are called like a batch (`batch`, `batch_size`, `N`, ...). If the model
            names no such dim, of the leading dim of each input that is symbolic or 1.
        dims: sizes of symbolic dims by name; one without a name is called `input[axis]`. Also of dims inside the graph
            that only the data decide, called as in the file or `value[axis]`.
        dtype: dtype to deploy all floating-point tensors in and to compute in, a key of `FLOAT_BYTES`; what the file
            stores in 8 bits or fewer keeps its width. None keeps the file's types and computes in that of most MACs,
            where a product is done in the wider type of its operands.
        fusion: "none", "activation", "chain", "conv" or "epilogue", see `fuse`.
        name: the Program's name; the file's without its suffix if None.

    Raises:
        WorkloadError: anything that keeps the model from becoming a Program. The message names the file, dim, tensor
            or node and says what to do.
    """
    if dtype is not None and dtype not in FLOAT_BYTES:
        raise WorkloadError(f"dtype is {dtype!r}; it must be one of {', '.join(FLOAT_BYTES)}, or None for the file's.")
    if fusion not in FUSIONS:
        raise WorkloadError(f"fusion is {fusion!r}; it must be one of {', '.join(FUSIONS)}.")
    file = Path(path)
    model = read_model(file)
    try:
        graph = _inferred(model, batch, dims)
        ops = lower(graph, dtype)
        computed_in = computing_dtype(ops) if dtype is None else dtype
        return assemble(fuse(ops, fusion), name=file.stem if name is None else name, dtype=computed_in)
    except WorkloadError as error:
        raise WorkloadError(f"{file.name}: {error}") from error


def inferred_graph(
    path: str | os.PathLike[str], *, batch: int | None = None, dims: Mapping[str, int] | None = None
) -> Graph:
    """The graph that `load_onnx` makes a Program of: all shapes known, names and types as in the file.

    Raises:
        WorkloadError: see `load_onnx`.
    """
    return _inferred(read_model(path), batch, dims)


def model_dims(path: str | os.PathLike[str]) -> list[str]:
    """Names of the symbolic dims of a model's inputs, in order of appearance.

    Raises:
        WorkloadError: see `load_onnx`.
    """
    return symbolic_dims(input_shapes(read_model(path).graph))


def _inferred(model: ModelProto, batch: int | None, dims: Mapping[str, int] | None) -> Graph:
    """The graph with all dims bound and all shapes known."""
    inputs, live = input_shapes(model.graph), live_inputs(model)
    inner = {dim for dims in inner_dims(model.graph).values() for dim in dims if isinstance(dim, str)}

    def bound(batch: int | None) -> Binding:
        return bind(inputs, live, batch, dims, inner)

    asked = bound(batch)
    if batch is None or not rebatches(inputs, batch):
        return _advising(model, asked)
    return _rebatched(model, _advising(model, bound(1)), asked, batch)


def _advising(model: ModelProto, binding: Binding) -> Graph:
    """The graph; where its shapes contradict each other, the error says what to pass."""
    try:
        return infer(model, binding)
    except MisfitError as misfit:
        raise advised(model, binding, misfit) from misfit


def _rebatched(model: ModelProto, before: Graph, binding: Binding, batch: int) -> Graph:
    """The graph with another batch than the one the file fixes, if nothing in it depends on that one.

    A Reshape to a fixed shape can swallow a batch without an error, so every tensor must grow by the same factor or
    not at all.
    """
    try:
        after = infer(model, binding)
    except WorkloadError as error:
        raise WorkloadError(_STATIC_BATCH.format(batch, error)) from error
    for name, value in after.values.items():
        single = before.values.get(name)
        if single is None or value.elements not in (single.elements, batch * single.elements):
            raise WorkloadError(_STATIC_BATCH.format(batch, f"{name!r} would become {list(value.shape)}."))
    return after
