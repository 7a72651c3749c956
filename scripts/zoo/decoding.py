"""Language models as they serve: the prompt in one pass, and one token behind a key-value cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface

from scripts.zoo.entry import Entry, Input, hf
from scripts.zoo.shape_only import additive_mask

Tensors = tuple[torch.Tensor, ...]
TOKENS = Input("input_ids", ("batch", "sequence"))
POSITIONS = Input("position_ids", ("batch", "sequence"))
TOKEN = Input("input_ids", ("batch", 1))
POSITION = Input("position_ids", ("batch", 1))


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
        """The keys and the values that a layer attends to, in parts, oldest first."""
        self.new.append((key.transpose(-1, -2), value))
        keys, values = zip(*self.past[layer : layer + 1], self.new[layer], strict=True)
        return keys, values

    def get_seq_length(self, layer: int = 0) -> int:
        """0, as positions are an input of the graph."""
        return 0

    def get_mask_sizes(self, length: int, layer: int) -> tuple[int, int]:
        """Number of keys behind a mask, and where they start."""
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
    """None for the single token behind a cache, which sees everything."""
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


@dataclass(frozen=True)
class Heads:
    """What a model keeps of a token.

    Attributes:
        layers: number of layers.
        number: heads of keys and values in a layer.
        size: of a head.
        window: tokens before its own that a layer with local attention sees.
        every: each so many layers there is one with global attention.
        tokens: in the cache of a layer with global attention.
    """

    layers: int
    number: int
    size: int
    window: int = 0
    every: int = 1
    tokens: int | str = "past_sequence"

    def past(self) -> tuple[Input, ...]:
        """The graph inputs that hold the cache."""
        inputs = []
        for layer in range(self.layers):
            tokens = self.window if (layer + 1) % self.every else self.tokens
            shapes = {"key": (self.size, tokens), "value": (tokens, self.size)}
            for name, shape in shapes.items():
                inputs.append(Input(f"past_{name}_{layer}", ("batch", self.number, *shape), torch.float32))
        return tuple(inputs)

    def outputs(self) -> tuple[str, ...]:
        """The logits and what is new in the cache."""
        return "logits", *(f"{name}_{layer}" for layer in range(self.layers) for name in ("key", "value"))


def prefill(build: Callable[[], nn.Module], heads: Heads) -> Entry:
    """A pass over the prompt that fills the cache and starts the answer."""
    return Entry(lambda: Served(build), (TOKENS, POSITIONS), heads.outputs())


def decode(build: Callable[[], nn.Module], heads: Heads) -> Entry:
    """One token of the answer."""
    return Entry(lambda: Served(build), (TOKEN, POSITION, *heads.past()), heads.outputs())


LLAMA = hf(
    "LlamaForCausalLM",
    vocab_size=128256,
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=16,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=64,
    max_position_embeddings=131072,
    tie_word_embeddings=True,
)
LLAMA_HEADS = Heads(16, 8, 64)
QWEN = hf(
    "Qwen3ForCausalLM",
    vocab_size=151936,
    hidden_size=1024,
    intermediate_size=3072,
    num_hidden_layers=28,
    num_attention_heads=16,
    num_key_value_heads=8,
    head_dim=128,
    max_position_embeddings=40960,
    tie_word_embeddings=True,
)
QWEN_HEADS = Heads(28, 8, 128)
GEMMA = hf(
    "Gemma3ForCausalLM",
    vocab_size=262144,
    hidden_size=1152,
    intermediate_size=6912,
    num_hidden_layers=26,
    num_attention_heads=4,
    num_key_value_heads=1,
    head_dim=256,
    sliding_window=512,
    tie_word_embeddings=True,
)
GEMMA_HEADS = Heads(26, 1, 256, window=511, every=6)
GPT2 = hf("GPT2LMHeadModel")
GPT2_MEDIUM = hf("GPT2LMHeadModel", n_embd=1024, n_layer=24, n_head=16)
# Its table of positions ends at 1,024 tokens.
GPT2_HEADS, GPT2_MEDIUM_HEADS = (Heads(layers, heads, 64, tokens=1023) for layers, heads in ((12, 12), (24, 16)))

MODELS = {
    "Llama-3.2-1B-prefill": prefill(LLAMA, LLAMA_HEADS),
    "Llama-3.2-1B-decode": decode(LLAMA, LLAMA_HEADS),
    "Qwen3-0.6B-prefill": prefill(QWEN, QWEN_HEADS),
    "Qwen3-0.6B-decode": decode(QWEN, QWEN_HEADS),
    "Gemma3-1B-prefill": prefill(GEMMA, GEMMA_HEADS),
    "Gemma3-1B-decode": decode(GEMMA, GEMMA_HEADS),
    "GPT2-decode": decode(GPT2, GPT2_HEADS),
    "GPT2-medium-decode": decode(GPT2_MEDIUM, GPT2_MEDIUM_HEADS),
}
