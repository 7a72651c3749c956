"""Transformers models with the key-value cache as inputs and its new rows as outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from scripts.zoo.shape_only import additive_mask

Tensors = tuple[torch.Tensor, ...]


@dataclass
class Cache:
    """Stands for the cache of a transformers model: hands out the old tokens and keeps the new ones apart.

    Appending to a cache would move all of it once more; the caller writes the new entries into its own in place. Keys
    are [batch, heads, head size, tokens], as the product with the queries reads them, values [..., tokens, head size].
    """

    past: Sequence[tuple[torch.Tensor, torch.Tensor]] = ()
    new: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    is_compileable: bool = False

    def update(self, key: torch.Tensor, value: torch.Tensor, layer: int) -> tuple[Tensors, Tensors]:
        """Return the keys and the values that a layer attends to, in parts, oldest first."""
        self.new.append((key.transpose(-1, -2), value))
        keys, values = zip(*self.past[layer : layer + 1], self.new[layer], strict=True)
        return keys, values

    def get_seq_length(self, layer: int = 0) -> int:
        """Return 0, as positions are an input of the graph."""
        return 0

    get_query_offset = get_seq_length

    def get_mask_sizes(self, length: int, layer: int) -> tuple[int, int]:
        """Return the number of keys behind a mask, and their start."""
        return length, 0


def attention(
    module: nn.Module,
    query: torch.Tensor,
    keys: Tensors,
    values: Tensors,
    mask: torch.Tensor | None,
    *,
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention over keys and values in parts; queries that share a head of the keys are rows of one product."""
    batch, heads, length, size = query.shape
    shared = values[0].shape[1]
    rows = (query * scaling).reshape(batch, shared, heads // shared * length, size)
    products = [rows @ key for key in keys]
    scores = torch.cat(products, dim=-1) if len(products) > 1 else products[0]
    if mask is not None:
        scores = (scores.reshape(batch, heads, length, length) + mask).reshape(scores.shape)
    shares = torch.softmax(scores, dim=-1)
    parts = shares.split([value.shape[2] for value in values], dim=-1) if len(values) > 1 else (shares,)
    result = parts[0] @ values[0]
    for part, value in zip(parts[1:], values[1:], strict=True):
        result = result + part @ value
    return result.reshape(batch, heads, length, size).transpose(1, 2), None


def mask(*, q_length: int, **more: Any) -> torch.Tensor | None:
    """Return None: the single token after a cache sees everything."""
    return None if isinstance(q_length, int) and q_length == 1 else additive_mask(q_length=q_length, **more)


AttentionInterface.register("in_parts", attention)
AttentionMaskInterface.register("in_parts", mask)


class Served(nn.Module):
    """A transformers model that gives the last token's logits and each layer's new keys and values."""

    def __init__(self, build: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.model = build()
        self.model.set_attn_implementation("in_parts")

    def forward(self, input_ids: torch.Tensor, position_ids: torch.Tensor, **past: torch.Tensor) -> SimpleNamespace:
        layers = range(len(past) // 2)
        cache = Cache([(past[f"past_key_{layer}"], past[f"past_value_{layer}"]) for layer in layers])
        result = self.model(
            input_ids=input_ids, position_ids=position_ids, past_key_values=cache, use_cache=True, logits_to_keep=1
        )
        keys = {f"key_{layer}": key for layer, (key, _) in enumerate(cache.new)}
        values = {f"value_{layer}": value for layer, (_, value) in enumerate(cache.new)}
        return SimpleNamespace(logits=result.logits, **keys, **values)
