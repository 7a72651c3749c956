"""Export the model zoo: shape-only ONNX graphs of public architectures.

A file holds the operators, shapes and types of a network and no weights: every parameter is a
`ConstantOfShape` node, so a file is small, passes `onnx.checker` and runs in ONNX Runtime (the
numbers it computes mean nothing). Models are built from their configuration on torch's meta
device: no weight is allocated, nothing is downloaded, and the same versions of the libraries
write the same bytes.

    pip install -r scripts/requirements-export.txt
    python scripts/export_zoo.py                      # every model that is shipped
    python scripts/export_zoo.py BERT GPT2 --out DIR  # some of them, elsewhere
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnx
import onnx_ir as ir
import torch
import transformers
from torch import nn
from transformers.masking_utils import AttentionMaskInterface, bidirectional_mask_function

ZOO = Path(__file__).resolve().parents[1] / "memplace_env" / "workload" / "zoo"
LICENCE = "Architecture only, without weights; exported from source code under Apache-2.0."
PREFIX = "network."
# The size of a dynamic axis while tracing; 0 and 1 would be taken for special cases.
TRACED = {"batch": 2, "sequence": 128, "decoder_sequence": 64}
# A placeholder up to this size is a real array, so that the optimiser can fold it as usual.
DENSE_ELEMENTS = 1 << 16
# Larger floating-point constants descend from parameters, larger others are not worth their bytes.
CONSTANT_ELEMENTS = 8
CONSTANT_BYTES = 4096


@dataclass(frozen=True)
class Input:
    """One graph input; a dimension that is a string is a dynamic axis of that name."""

    name: str
    dims: tuple[int | str, ...]
    dtype: torch.dtype = torch.int64

    def example(self) -> torch.Tensor:
        shape = [TRACED[dim] if isinstance(dim, str) else dim for dim in self.dims]
        return torch.zeros(shape, dtype=self.dtype, device="meta")

    def axes(self) -> dict[int, str]:
        return {axis: dim for axis, dim in enumerate(self.dims) if isinstance(dim, str)}


IMAGE = Input("pixel_values", ("batch", 3, 224, 224), torch.float32)
MEL = Input("input_features", ("batch", 80, 3000), torch.float32)
TOKENS = Input("input_ids", ("batch", "sequence"))
MASK = Input("attention_mask", ("batch", "sequence"))
SEGMENTS = Input("token_type_ids", ("batch", "sequence"))
DECODER_TOKENS = Input("decoder_input_ids", ("batch", "decoder_sequence"))


@dataclass(frozen=True)
class Entry:
    """One line of the zoo; `positions` names an argument that takes the indices of the tokens."""

    source: str
    build: Callable[[], nn.Module]
    inputs: tuple[Input, ...] = (IMAGE,)
    outputs: tuple[str, ...] = ("logits",)
    opset: int = 20
    positions: str = ""
    shipped: bool = True


class Network(nn.Module):
    """Gives a model positional inputs and plain tensor outputs."""

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self.network = entry.build()
        self.entry = entry

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        arguments = {item.name: x for item, x in zip(self.entry.inputs, inputs, strict=True)}
        if self.entry.positions:
            length, device = inputs[-1].shape[1], inputs[-1].device
            arguments[self.entry.positions] = torch.arange(length, device=device)[None]
        result = self.network(**arguments)
        if self.entry.outputs == ("probabilities",):
            return (torch.softmax(result.logits, dim=-1),)
        return tuple(getattr(result, name) for name in self.entry.outputs)


class AlexNet(nn.Sequential):
    """The single-tower network of arXiv:1404.5997."""

    def __init__(self) -> None:
        layers: list[nn.Module] = []
        convolutions = ((3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1))
        for index, numbers in enumerate((*convolutions, (384, 256, 3, 1, 1), (256, 256, 3, 1, 1))):
            layers += [nn.Conv2d(*numbers), nn.ReLU()]
            if index in (0, 1, 4):
                layers.append(nn.MaxPool2d(3, stride=2))
        layers += [nn.Flatten(), nn.Linear(256 * 6 * 6, 4096), nn.ReLU()]
        super().__init__(*layers, nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))

    def forward(self, pixel_values: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=super().forward(pixel_values))


class Mean(nn.Module):
    """Global pooling that exports as one operator; AdaptiveAvgPool1d adds a gather."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(-1, keepdim=True)


def hf(head: str, **numbers: Any) -> Callable[[], nn.Module]:
    """A builder of a transformers model; `numbers` are what differs from the class defaults."""

    def build() -> nn.Module:
        model = getattr(transformers, head)
        return model(model.config_class(**numbers, attn_implementation="eager"))

    return build


def swin() -> nn.Module:
    model = hf("SwinForImageClassification", num_labels=1000)()
    model.swin.pooler = Mean()
    return model


BERT_LARGE = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
TINY_LLAMA = {"hidden_size": 2048, "num_hidden_layers": 22, "num_key_value_heads": 4}

MODELS = {
    "ResNet50": Entry(
        "ResNet-50 v1.5 image classifier, config of microsoft/resnet-50",
        hf("ResNetForImageClassification", depths=[3, 4, 6, 3], num_labels=1000),
        outputs=("probabilities",),
    ),
    "ResNet101": Entry(
        "ResNet-101 v1.5 image classifier, config of microsoft/resnet-101",
        hf("ResNetForImageClassification", depths=[3, 4, 23, 3], num_labels=1000),
        outputs=("probabilities",),
    ),
    "BERT": Entry(
        "BERT-base with question-answering head, config of google-bert/bert-base-uncased",
        hf("BertForQuestionAnswering"),
        (TOKENS, MASK, SEGMENTS),
        ("start_logits", "end_logits"),
        # Before opset 20 Gelu is five operators, as published node counts of BERT have it.
        opset=18,
    ),
    "BERT-Large": Entry(
        "BERT-large with question-answering head, config of google-bert/bert-large-uncased",
        hf("BertForQuestionAnswering", **BERT_LARGE, intermediate_size=4096),
        (TOKENS, MASK, SEGMENTS),
        ("start_logits", "end_logits"),
    ),
    "MobileNetV2": Entry(
        "MobileNetV2 1.0 image classifier, config of google/mobilenet_v2_1.0_224",
        hf("MobileNetV2ForImageClassification", num_labels=1001),
    ),
    "GPT2": Entry(
        "GPT-2 with language-model head, no cache, config of openai-community/gpt2",
        hf("GPT2LMHeadModel", use_cache=False),
        (TOKENS,),
    ),
    "ViT": Entry(
        "ViT-base/16 image classifier, config of google/vit-base-patch16-224",
        hf("ViTForImageClassification", num_labels=1000),
    ),
    "T5-small": Entry(
        "T5-small encoder and decoder with language-model head, config of google-t5/t5-small",
        hf("T5ForConditionalGeneration", use_cache=False),
        (TOKENS, DECODER_TOKENS),
    ),
    "Whisper-tiny": Entry(
        "Whisper-tiny encoder and decoder with language-model head, config of openai/whisper-tiny",
        hf("WhisperForConditionalGeneration", use_cache=False),
        (MEL, DECODER_TOKENS),
        positions="decoder_position_ids",
    ),
    "ConvNeXt-tiny": Entry(
        "ConvNeXt-tiny image classifier, config of facebook/convnext-tiny-224",
        hf("ConvNextForImageClassification", num_labels=1000),
    ),
    "Swin-tiny": Entry(
        "Swin-tiny image classifier, config of microsoft/swin-tiny-patch4-window7-224",
        swin,
    ),
    "AlexNet": Entry("Single-tower AlexNet of arXiv:1404.5997", AlexNet),
    "Llama-1B": Entry(
        "Llama of 1.1B parameters, no cache, config of TinyLlama/TinyLlama-1.1B-Chat-v1.0",
        hf("LlamaForCausalLM", **TINY_LLAMA, intermediate_size=5632, use_cache=False),
        (TOKENS,),
        shipped=False,
    ),
}


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
    """The mask of causal or of padded attention that repeats no number; None if all is visible."""
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
    """Stands for the data of a parameter or buffer, which the meta device does not have."""
    if name.endswith("position_ids"):
        return np.broadcast_to(np.arange(shape[-1], dtype=dtype), shape).copy()
    # The optimiser merges equal arrays, which would turn distinct parameters into one, and drops
    # the addition of zero and the multiplication by one: each parameter needs its own number.
    value = dtype.type(2 + index / 4096 if dtype.kind == "f" else 0)
    dense = math.prod(shape) <= DENSE_ELEMENTS
    return np.full(shape, value) if dense else np.broadcast_to(value, shape)


def fill(graph: ir.Graph) -> dict[float, str]:
    """Gives each initializer without data a placeholder; returns parameter names by their value."""
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
    """True for what has no real data: parameters, what was folded from them, large constants."""
    if tensor.size > CONSTANT_ELEMENTS:
        return tensor.dtype.is_floating_point() or tensor.nbytes > CONSTANT_BYTES
    return tensor.dtype.is_floating_point() and float(tensor.numpy().flat[0]) in names


def drop_parameters(graph: ir.Graph, names: dict[float, str]) -> None:
    """Replaces each parameter by a ConstantOfShape node; equal shapes share one initializer."""
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
            # A folded transposition has a new name; its number still tells which weight it was.
            new = names.get(float(tensor.numpy().flat[0]), old)
        new = f"{new}.folded" if new != old and new in taken else new
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
    """Removes paddings by nothing, which the optimiser leaves."""
    for node in graph:
        if node.op_type == "Pad" and not node.inputs[1].const_value.numpy().any():
            node.outputs[0].replace_all_uses_with(node.inputs[0])
            graph.remove(node, safe=True)


def strip(model: onnx.ModelProto) -> None:
    """Removes traces of the exporter and inferred shapes, which any reader infers again."""
    graph = model.graph
    del graph.metadata_props[:], graph.value_info[:], model.metadata_props[:]
    for item in (*graph.node, *graph.input, *graph.output, *graph.initializer):
        item.ClearField("metadata_props")
        item.ClearField("doc_string")


def shape_only(name: str, entry: Entry, static: bool = False) -> onnx.ModelProto:
    """The ONNX model of one entry, without its weights."""
    program = trace(entry, static)
    names = fill(program.model.graph)
    program.optimize()
    drop_empty_pads(program.model.graph)
    drop_parameters(program.model.graph, names)
    model = ir.to_proto(program.model)
    strip(model)
    model.graph.name = name
    model.producer_name = "memplace export_zoo"
    model.producer_version = ""
    model.doc_string = f"{entry.source}. {LICENCE}"
    versions = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    onnx.helper.set_model_props(model, versions)
    return model


def write(model: onnx.ModelProto, path: Path) -> None:
    """Writes a checked model in one step: a reader never sees half of a file."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(model.SerializeToString(deterministic=True))
    onnx.checker.check_model(temporary, full_check=True)
    temporary.replace(path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--out", type=Path, default=ZOO, help="folder of the files")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(MODELS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(MODELS)}")
    warnings.simplefilter("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or [name for name, entry in MODELS.items() if entry.shipped]:
        path = options.out / f"{name}.onnx"
        model = shape_only(name, MODELS[name])
        write(model, path)
        print(f"{name}: {len(model.graph.node)} nodes, {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
