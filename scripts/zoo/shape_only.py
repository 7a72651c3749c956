"""Export of an entry as an ONNX graph without weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import torch
from transformers.masking_utils import AttentionMaskInterface, bidirectional_mask_function

from memplace_env.program.zoo import Listing
from scripts.zoo.entry import Entry, Network

LICENCE = "Architecture only, without weights; exported from source code under {}."
PREFIX = "network."
LIBRARIES = ("diffusers", "timm", "torchvision", "transformers")
# A placeholder up to this size is a real array, so that the optimiser can fold it as usual.
DENSE_ELEMENTS = 1 << 16
# Larger floating-point constants descend from parameters, larger others are not worth their bytes.
CONSTANT_ELEMENTS = 8
CONSTANT_BYTES = 4096


def additive_mask(
    *,
    q_length: int,
    kv_length: int,
    mask_function: Callable[..., Any],
    attention_mask: torch.Tensor | None,
    dtype: torch.dtype,
    device: torch.device,
    **_: Any,
) -> torch.Tensor | None:
    """Return the mask of causal or of padded attention that repeats no number; None if all is visible."""
    lowest = torch.finfo(dtype).min
    if mask_function is not bidirectional_mask_function:
        future = torch.full((q_length, kv_length), lowest, dtype=dtype, device=device)
        return future.triu(1)[None, None]
    if attention_mask is None:
        return None
    return (1 - attention_mask[:, None, None, :].to(dtype)) * lowest


# The library's own mask has an entry per sample, query and key even where all are equal.
AttentionMaskInterface.register("eager", additive_mask)


def trace(entry: Entry, static: bool = False) -> torch.onnx.ONNXProgram:
    with torch.device("meta"):
        network = Network(entry).eval()
    axes = tuple({} if static else item.axes() for item in entry.inputs)
    return torch.onnx.export(
        network,
        tuple(item.example() for item in entry.inputs),
        dynamo=True,
        optimize=False,
        verbose=False,
        opset_version=entry.opset,
        input_names=[item.name for item in entry.inputs],
        output_names=list(entry.outputs),
        dynamic_shapes=(axes,),
    )


def placeholder(name: str, shape: Sequence[int], dtype: np.dtype, index: int) -> np.ndarray:
    """A placeholder for the data of a parameter or buffer, which the meta device does not have."""
    if name.endswith("position_ids"):
        return np.broadcast_to(np.arange(shape[-1], dtype=dtype), shape).copy()
    # The optimiser merges equal arrays, which would turn distinct parameters into one, and drops
    # the addition of zero and the multiplication by one: each parameter needs its own number.
    value = dtype.type(2 + index / 4096 if dtype.kind == "f" else 0)
    dense = math.prod(shape) <= DENSE_ELEMENTS
    return np.full(shape, value) if dense else np.broadcast_to(value, shape)


def fill(graph: ir.Graph) -> dict[float, str]:
    """Give each initializer without data a placeholder; return parameter names by their value."""
    names: dict[float, str] = {}
    for index, (name, value) in enumerate(graph.initializers.items()):
        if not getattr(value.const_value.raw, "is_meta", False):
            continue
        array = placeholder(name, value.shape.numpy(), value.dtype.numpy(), index)
        value.const_value = ir.tensor(array, name=name)
        if array.dtype.kind == "f":
            names[float(array.flat[0])] = name.removeprefix(PREFIX)
    return names


def is_parameter(tensor: ir.TensorProtocol, names: dict[float, str]) -> bool:
    """Return True for values without real data: parameters, values folded from them, large constants."""
    if tensor.size > CONSTANT_ELEMENTS:
        return tensor.dtype.is_floating_point() or tensor.nbytes > CONSTANT_BYTES
    return tensor.dtype.is_floating_point() and float(tensor.numpy().flat[0]) in names


def drop_parameters(graph: ir.Graph, names: dict[float, str]) -> None:
    """Replace each parameter by a ConstantOfShape node; equal shapes share one initializer."""
    nodes: list[ir.Node] = []
    shapes: dict[str, ir.Value] = {}
    taken = set(graph.initializers)
    for old, value in list(graph.initializers.items()):
        tensor = value.const_value
        new = old.removeprefix(PREFIX)
        if not is_parameter(tensor, names):
            value.name = new
            continue
        if old.startswith("val_"):
            # A folded transposition has a new name; its number still identifies the weight.
            new = names.get(float(tensor.numpy().flat[0]), old)
        while new != old and new in taken:
            new += ".folded"
        taken.add(new)
        dims = np.array(tensor.shape.numpy(), np.int64)
        shape = "x".join(map(str, ("shape", *dims)))
        if shape not in shapes:
            shapes[shape] = ir.val(shape, const_value=ir.tensor(dims, name=shape))
        del graph.initializers[old]
        value.name, value.const_value = new, None
        zero = {"value": ir.tensor(np.zeros(1, tensor.dtype.numpy()))}
        nodes.append(ir.node("ConstantOfShape", [shapes[shape]], zero, outputs=[value], name=new))
    for value in shapes.values():
        graph.register_initializer(value)
    graph.insert_before(graph[0], nodes)


def drop_empty_pads(graph: ir.Graph) -> None:
    """Remove paddings by nothing, which the optimiser leaves."""
    for node in graph:
        if node.op_type == "Pad" and not node.inputs[1].const_value.numpy().any():
            node.outputs[0].replace_all_uses_with(node.inputs[0])
            graph.remove(node, safe=True)


def strip(model: onnx.ModelProto) -> None:
    """Remove traces of the exporter and inferred shapes, which any reader infers again."""
    graph = model.graph
    del graph.metadata_props[:], graph.value_info[:], model.metadata_props[:]
    for item in (*graph.node, *graph.input, *graph.output, *graph.initializer):
        item.ClearField("metadata_props")
        item.ClearField("doc_string")


def shape_only(listing: Listing, entry: Entry, static: bool = False) -> onnx.ModelProto:
    """Return the ONNX model of an entry, without its weights."""
    program = trace(entry, static)
    names = fill(program.model.graph)
    program.optimize()
    drop_empty_pads(program.model.graph)
    drop_parameters(program.model.graph, names)
    model = ir.to_proto(program.model)
    strip(model)
    model.graph.name = listing.name
    model.producer_name = "memplace export_zoo"
    model.producer_version = ""
    model.doc_string = f"{listing.text}. {LICENCE.format(listing.licence)}"
    library = listing.code if listing.code in LIBRARIES else "transformers"
    onnx.helper.set_model_props(model, {name: version(name).split("+")[0] for name in ("torch", library)})
    return model
