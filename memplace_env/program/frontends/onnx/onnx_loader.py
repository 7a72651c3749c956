"""`load_onnx`: reads a file, binds its dims, infers shapes, lowers nodes to ops, fuses them, assembles the arrays."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from onnx import GraphProto, ModelProto

from memplace_env._lib.collection import collection_paused
from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.hints import nearest
from memplace_env.program.frontends.onnx.dims import (
    Binding,
    bind,
    dim_names,
    how_to_pass,
    inner_dims,
    input_shapes,
    is_batch,
    rebatches,
    symbolic_dims,
)
from memplace_env.program.frontends.onnx.inference import infer
from memplace_env.program.frontends.onnx.node_checks import MisfitError
from memplace_env.program.frontends.onnx.onnx_reader import read_model
from memplace_env.program.frontends.onnx.topology import live_inputs
from memplace_env.program.lowering.aliases import check_aliases, places
from memplace_env.program.lowering.assembly import assemble, choices_note
from memplace_env.program.lowering.compute_dtype import check_deployment, computing_dtype
from memplace_env.program.lowering.fusion import fuse
from memplace_env.program.lowering.lower_graph import lower
from memplace_env.program.lowering.node_graph import NodeGraph
from memplace_env.program.model_file import check_trips, errors_named, name_of
from memplace_env.program.program import Program

_STATIC_BATCH: Final = "The model fixes its batch at 1, so batch={} cannot be bound: {} Export it with a dynamic batch."


def load_onnx(
    path: str | os.PathLike[str],
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    dtype: str | None = None,
    fusion: str = "conv",
    in_place: str = "none",
    patterns: str = "off",
    trips: int | None = None,
    values: Mapping[str, float] | None = None,
    cut: str | None = None,
    aliases: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Program:
    """Read an ONNX model as a Program. Weights need only dims and type: external data is never opened.

    If the only free dim of an input is its leading one, it is 1, with a warning. Loops are unrolled. If data choose the
    branch of an `If`, the one with most work is taken; a warning says which, and what each branch costs. A branch whose
    shapes do not fit together is not taken if the other's do, with a warning too. An op reads the condition, so the ops
    that compute it stay.

    Args:
        path: an .onnx file.
        batch: size of the symbolic dims whose names mean a batch (`batch`, `batch_size`, `N`, ...). If the model names
            no such dim, size of the leading dim of each input that is symbolic or 1.
        dims: sizes of symbolic dims by name; one without a name is called `input.axis`. Also sizes of dims inside the
            graph that only the data determine, named as in the file or `value.axis`. A "*" in a name means all dims
            that match, as in `{"u*": 64}`.
        dtype: dtype to deploy all floating-point tensors in and to compute in, a key of `FLOAT_BYTES`; tensors that the
            file stores in 8 bits or fewer keep their width. None keeps the file's types and computes in that of most
            MACs, where a product is computed in the wider type of its operands.
        fusion: "none", "activation", "chain", "conv" or "epilogue", see `fuse`.
        in_place: which results may lie in the place of an operand that no later op reads, see `Program.inplace`:
            "none", "elementwise" for those of element-wise ops, "rows" also for those of softmax and normalisations.
        patterns: "on": known formulas, such as a written-out GELU, are one op under any fusion, see docs/model.md;
            "off": the file's own ops.
        trips: trip count of data-dependent loops.
        values: values of graph inputs of one element, by name. They become constants, which can choose branches.
        cut: name of a tensor of the main graph, up to which the model is loaded; None loads all of it.
        aliases: graph inputs by the outputs written in their place, such as `{"present.*": "past.*"}`, where "*" is the
            same text in both. The caller passes one buffer for both. An op that scatters rows into such a cache moves
            these rows only. Concatenations of past and new have other bytes and cannot.
        name: the Program's name; the file's without its suffix if None.

    Raises:
        WorkloadError: the model cannot become a Program. The message names the file, dim, tensor or node and what to
            do.
    """
    check_deployment(dtype, fusion, in_place, patterns)
    file = Path(path)
    with collection_paused():
        graph = inferred_graph(file, batch=batch, dims=dims, trips=trips, values=values, cut=cut)
        with errors_named(file):
            if patterns == "on":
                # The patterns are made of this package's operators.
                from memplace_env.program.frontends.patterns import with_patterns

                graph = with_patterns(graph)
            ops = lower(graph, dtype, places(graph, aliases or {}))
            computed_in = computing_dtype(ops, dtype)
            fused = fuse(ops, fusion)
            check_aliases(fused)
            called = name_of(file) if name is None else name
            program = assemble(fused, name=called, dtype=computed_in, in_place=in_place)
    choices = graph.choices and [choices_note(graph.choices, lambda branch: fuse(lower(branch, dtype), fusion))]
    for note in (*graph.notes, *choices):
        warnings.warn(f"{file}: {note}", stacklevel=2)
    return program


def inferred_graph(
    path: str | os.PathLike[str],
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    trips: int | None = None,
    values: Mapping[str, float] | None = None,
    cut: str | None = None,
) -> NodeGraph:
    """Return the graph that `load_onnx` lowers: all shapes known, names and types as in the file.

    Raises:
        WorkloadError: see `load_onnx`.
    """
    check_trips(trips)
    file = Path(path)
    model = read_model(file)
    with errors_named(file):
        if cut is not None:
            _cut(model.graph, cut)
        return _inferred(model, batch, dims, trips, values)


def model_dims(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the symbolic dims of a model's inputs, in order of appearance.

    Raises:
        WorkloadError: see `load_onnx`.
    """
    return symbolic_dims(input_shapes(read_model(path).graph))


def _cut(graph: GraphProto, name: str) -> None:
    """Make a tensor the only output of a graph."""
    made = [output for node in graph.node for output in node.output if output]
    if name not in made:
        close = nearest(name, made)
        hint = f"did you mean {close!r}?" if close else "pass the name of a node's output in its main graph."
        raise WorkloadError(f"The model makes no tensor {name!r} to cut at; {hint}")
    graph.value_info.extend(graph.output)  # where sizes inside the graph may be declared
    del graph.output[:]
    graph.output.add(name=name)


def _inferred(
    model: ModelProto,
    batch: int | None,
    dims: Mapping[str, int] | None,
    trips: int | None,
    values: Mapping[str, float] | None,
) -> NodeGraph:
    """Return the graph with all dims bound and all shapes known."""
    inputs, live = input_shapes(model.graph), live_inputs(model)
    inner = dim_names(inner_dims(model.graph))

    def bound(batch: int | None) -> Binding:
        return bind(inputs, live, batch, dims, inner, trips, values)

    binding = bound(batch)
    if batch is None or not rebatches(inputs, batch):
        return _advising(model, binding)
    return _rebatched(model, _advising(model, bound(1)), binding, batch)


def _advising(model: ModelProto, binding: Binding) -> NodeGraph:
    """Return the graph, or raise an error that advises sizes to pass if shapes contradict each other."""
    try:
        return infer(model, binding)
    except MisfitError as misfit:
        raise advised(model, binding, misfit) from misfit


def _rebatched(model: ModelProto, before: NodeGraph, binding: Binding, batch: int) -> NodeGraph:
    """Return the graph with another batch than the one the file fixes, if nothing in it depends on that one.

    A Reshape to a fixed shape can absorb a batch without an error, so every tensor must grow by the same factor or
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


_MOST_TRIES: Final = 20
_MOST_NODES: Final = 20_000
"""Most nodes of all tries together: each is a pass over the whole model, so large models get fewer."""


def advised(model: ModelProto, binding: Binding, misfit: MisfitError) -> WorkloadError:
    """Return the error, with sizes of the symbolic dims that fit the whole model if some are found."""
    names = symbolic_dims(binding.inputs)
    if not names:
        return WorkloadError(str(misfit))
    fitting = _fitting(model, binding, misfit)
    if fitting is not None:
        return WorkloadError(
            f"{misfit} The exporter has fixed sizes in the file, which fit {_how_to_pass(fitting)}; pass that, or "
            "export the model with these dims dynamic."
        )
    given = _how_to_pass({name: binding.sizes[name] for name in names})
    return WorkloadError(
        f"{misfit} The exporter may have fixed sizes in the file; pass those it was traced at instead of {given}, or "
        "export the model with these dims dynamic."
    )


def _fitting(model: ModelProto, binding: Binding, misfit: MisfitError) -> dict[str, int] | None:
    """Return other sizes for some dims, found by resolving one misfit after another; None if none fit."""
    groups = _groups(symbolic_dims(binding.inputs))
    sizes: dict[str, int] = {}
    # Each round fixes the dims of at least one group for good, so no size is tried twice.
    for _ in range(min(_MOST_TRIES, 1 + _MOST_NODES // len(model.graph.node))):
        step = _step([group for group in groups if group[0] not in sizes], binding.sizes, misfit.pairs)
        if not step:
            return None
        sizes |= step
        try:
            infer(model, binding.resized(sizes))
        except MisfitError as error:
            misfit = error
        except WorkloadError:
            return None
        else:
            return sizes
    return None


def _groups(names: Sequence[str]) -> list[list[str]]:
    """Return groups of dims of equal size: all batches first, then each other dim alone."""
    batches = [name for name in names if is_batch(name)]
    others = [[name] for name in names if not is_batch(name)]
    return [batches, *others] if batches else others


def _step(groups: list[list[str]], sizes: Mapping[str, int], pairs: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Return new sizes for the dims that conflict with another size at the same axis; without any a batch of 1."""
    free, step = list(groups), {}
    for pair in pairs:
        # Either of the two sizes may be that of a symbolic dim, and the other the one that the exporter fixed.
        for bound, fixed in (pair, pair[::-1]):
            group = next((group for group in free if sizes[group[0]] == bound), None)
            if group is not None and fixed > 0:
                free.remove(group)
                step.update(dict.fromkeys(group if fixed != bound else (), fixed))
                break
    if not step and groups and is_batch(groups[0][0]) and sizes[groups[0][0]] != 1:
        return dict.fromkeys(groups[0], 1)
    return step


def _how_to_pass(sizes: Mapping[str, int]) -> str:
    batch = next((size for name, size in sizes.items() if is_batch(name)), None)
    return how_to_pass({name: size for name, size in sizes.items() if not is_batch(name)}, batch)
