"""`load_tflite`: reads a file, translates it to ONNX's terms, lowers nodes to ops, fuses them, assembles the arrays."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.patterns import with_patterns
from memplace_env.program.frontends.tflite.tflite_graph import to_graph, up_to
from memplace_env.program.frontends.tflite.tflite_model import TfliteModel
from memplace_env.program.frontends.tflite.tflite_reader import parse
from memplace_env.program.lowering.assembly import assemble, choices_note
from memplace_env.program.lowering.buffer_ops import OpGraph
from memplace_env.program.lowering.compute_dtype import check_deployment, computing_dtype
from memplace_env.program.lowering.fusion import fuse
from memplace_env.program.lowering.lower_graph import lower
from memplace_env.program.lowering.node_graph import Node, NodeGraph
from memplace_env.program.model_file import check_trips, errors_named, name_of, read_bytes
from memplace_env.program.program import Program


def load_tflite(
    path: str | os.PathLike[str],
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    dtype: str | None = None,
    fusion: str = "conv",
    in_place: str = "none",
    patterns: str = "off",
    trips: int | None = None,
    cut: str | None = None,
    name: str | None = None,
) -> Program:
    """Read a TensorFlow Lite model as a Program. Bytes of weights are not read and may be missing.

    The first graph of the file is loaded, with what its control flow calls, see `load_onnx`. What CALL_ONCE runs is not
    part of an inference. A resource variable is an input of the Program; what is assigned to it last is an output.

    Op types are those of ONNX (CONV_2D and DEPTHWISE_CONV_2D are "Conv", FULLY_CONNECTED is "Gemm", ...), and ops are
    named after their first result. An activation inside an operator of the file is part of its op, as if it had been
    fused. With any fusion but "none" a PAD of height and width that only a convolution without padding reads becomes
    its padding.

    Args:
        path: a .tflite file.
        batch: None or the batch that the file has; TFLite fixes all shapes, so another one needs another file.
        dims: None or empty, as no dim has a name.
        dtype: dtype to deploy all floating-point tensors in and to compute in, a key of `FLOAT_BYTES`; integers keep
            their width. None keeps the file's types and computes in that of most MACs, where integers of at most 8 bits
            count as int8: so does a model with int8 weights and int16 activations, whose activations keep 2 bytes.
        fusion: see `fuse`; a fully connected layer counts as a convolution.
        in_place: see `load_onnx`.
        patterns: see `load_onnx`.
        trips: number of rounds of each WHILE, which the data determine.
        cut: name of a tensor of the first graph, up to which the model is loaded; None loads all of it.
        name: the Program's name; the file's without its suffix if None.

    Raises:
        WorkloadError: the model cannot become a Program, or the package `tflite` is missing. The message names the
            file, tensor or operator and what to do.
    """
    check_deployment(dtype, fusion, in_place, patterns)
    check_trips(trips)
    file = Path(path)
    data = read_bytes(file, ".tflite")
    with errors_named(file):
        model = parse(data)
        _check_bindings(model, batch, dims)
        graph = to_graph(model if cut is None else up_to(model, cut), trips)
        ops = _lowered(with_patterns(graph) if patterns == "on" else graph, dtype, fusion)
        computed_in = computing_dtype(ops, dtype)
        called = name_of(file) if name is None else name
        program = assemble(fuse(ops, fusion), name=called, dtype=computed_in, in_place=in_place)
    choices = graph.choices and [choices_note(graph.choices, lambda each: fuse(_lowered(each, dtype, fusion), fusion))]
    for note in (*graph.notes, *choices):
        warnings.warn(f"{file}: {note}", stacklevel=2)
    return program


def _lowered(graph: NodeGraph, dtype: str | None, fusion: str) -> OpGraph:
    return lower(graph if fusion == "none" else fold_paddings(graph), dtype)


def check_tflite(path: str | os.PathLike[str]) -> None:
    """Check that a file can be parsed.

    Raises:
        WorkloadError: it is no TensorFlow Lite model.
    """
    parse(read_bytes(Path(path), ".tflite"))


def _check_bindings(model: TfliteModel, batch: int | None, dims: Mapping[str, int] | None) -> None:
    if dims:
        raise WorkloadError(f"The model has no symbolic dims, so {', '.join(dims)} cannot be bound; leave dims out.")
    own = next((tensor.shape[0] for tensor in model.inputs if tensor.shape), None)
    if batch is not None and batch != own:
        raise WorkloadError(
            f"The model fixes its batch at {own}, so batch={batch} cannot be bound; convert it with that one."
        )


def fold_paddings(graph: NodeGraph) -> NodeGraph:
    """Fold each PAD of height and width into the convolution that alone reads its result and has no padding itself."""
    reads = Counter(name for node in graph.nodes for name in node.inputs)
    reads.update(graph.outputs)
    pads = {node.outputs[0]: node for node in graph.nodes if _of_images(node) and reads[node.outputs[0]] == 1}
    return replace(graph, nodes=tuple(_folded(node, pads) for node in graph.nodes))


def _of_images(node: Node) -> bool:
    """Return whether a node pads zeros, and only to height and width."""
    zeros = node.attributes.get("zeros", ())
    return len(zeros) == 4 and not any((*zeros[0], *zeros[3])) and min(min(row) for row in zeros) >= 0


def _folded(node: Node, pads: dict[str, Node]) -> Node:
    pad = pads.get(node.inputs[0]) if node.inputs else None
    if pad is None or node.operator.name != "Conv" or "auto_pad" in node.attributes:
        return node
    (top, bottom), (left, right) = pad.attributes["zeros"][1:3]
    attributes = {**node.attributes, "pads": (top, left, bottom, right)}
    return replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)
