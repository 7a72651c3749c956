"""Entries of the zoo: module, inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from torch import nn

# The size of a dynamic axis while tracing; 0 and 1 would be taken for special cases.
TRACED = {"batch": 2, "sequence": 128, "decoder_sequence": 64, "past_sequence": 96}


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


def image(side: int, channels: int = 3) -> Input:
    """Return the input of a batch of square images, `side` pixels wide."""
    return Input("pixel_values", ("batch", channels, side, side), torch.float32)


IMAGE = image(224)


@dataclass(frozen=True)
class Entry:
    """The recipe of a program of the zoo.

    Attributes:
        build: makes the module; it runs with torch's meta device as the default.
        inputs: what the module takes.
        outputs: the parts of its result that are outputs of the program; "probabilities" are the softmax of its logits.
        opset: version of ONNX's operators.
        positions: names an argument that takes the indices of the tokens, if any does.
        by_name: the module's arguments have the inputs' names; otherwise they go by position.
    """

    build: Callable[[], nn.Module]
    inputs: tuple[Input, ...] = (IMAGE,)
    outputs: tuple[str, ...] = ("logits",)
    opset: int = 20
    positions: str = ""
    by_name: bool = True


class Network(nn.Module):
    """A model with positional inputs and plain tensor outputs."""

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self.network = entry.build()
        self.entry = entry

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if not self.entry.by_name:
            return outputs_of(self.network(*inputs), self.entry.outputs)
        arguments = {item.name: x for item, x in zip(self.entry.inputs, inputs, strict=True)}
        if self.entry.positions:
            length, device = inputs[-1].shape[1], inputs[-1].device
            arguments[self.entry.positions] = torch.arange(length, device=device)[None]
        result = self.network(**arguments)
        if self.entry.outputs == ("probabilities",):
            return (torch.softmax(result.logits, dim=-1),)
        return outputs_of(result, self.entry.outputs)


def outputs_of(result: Any, names: tuple[str, ...]) -> tuple[torch.Tensor, ...]:
    """Return a module's outputs as plain tensors; without names (a tensor, a tuple) all of them."""
    if isinstance(result, torch.Tensor):
        return (result,)
    if isinstance(result, tuple):
        return result
    return tuple(result[name] if isinstance(result, Mapping) else getattr(result, name) for name in names)


def hf(head: str, **numbers: Any) -> Callable[[], nn.Module]:
    """Return a builder of a transformers model; `numbers` are the values that differ from the class defaults."""

    def build() -> nn.Module:
        model = getattr(transformers, head)
        return model(model.config_class(**numbers, attn_implementation="eager"))

    return build
