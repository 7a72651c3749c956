"""Language models in service: the prompt in one pass, and one token after a key-value cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import nn

from scripts.zoo.entry import Entry, Input, hf
from scripts.zoo.networks.cached import Served
from scripts.zoo.networks.mixture import Block, Chosen, Shared

TOKENS = Input("input_ids", ("batch", "sequence"))
POSITIONS = Input("position_ids", ("batch", "sequence"))
TOKEN = Input("input_ids", ("batch", 1))
POSITION = Input("position_ids", ("batch", 1))


@dataclass(frozen=True)
class Heads:
    """The key-value cache of a model: its heads, and the tokens in it.

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
        """Return the graph inputs of the cache."""
        inputs = []
        for layer in range(self.layers):
            tokens = self.window if (layer + 1) % self.every else self.tokens
            shapes = {"key": (self.size, tokens), "value": (tokens, self.size)}
            for name, shape in shapes.items():
                inputs.append(Input(f"past_{name}_{layer}", ("batch", self.number, *shape), torch.float32))
        return tuple(inputs)

    def outputs(self) -> tuple[str, ...]:
        """Return the names of the logits and of the new keys and values."""
        return "logits", *(f"{name}_{layer}" for layer in range(self.layers) for name in ("key", "value"))


def prefill(build: Callable[[], nn.Module], heads: Heads) -> Entry:
    """Return the entry of a pass over the prompt, which fills the cache and starts the answer."""
    return Entry(lambda: Served(build), (TOKENS, POSITIONS), heads.outputs())


def decode(build: Callable[[], nn.Module], heads: Heads) -> Entry:
    """Return the entry of one token of the answer."""
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
MIXTRAL_HEADS = Heads(1, 8, 128)
MIXTRAL_OUTPUTS = ("updated", *MIXTRAL_HEADS.outputs()[1:])


def one_sample(*inputs: Input) -> tuple[Input, ...]:
    """Return the same inputs with a batch of one."""
    return tuple(replace(source, dims=tuple(1 if dim == "batch" else dim for dim in source.dims)) for source in inputs)


MODELS = {
    "Llama-3.2-1B-prefill": prefill(LLAMA, LLAMA_HEADS),
    "Llama-3.2-1B-decode": decode(LLAMA, LLAMA_HEADS),
    "Qwen3-0.6B-prefill": prefill(QWEN, QWEN_HEADS),
    "Qwen3-0.6B-decode": decode(QWEN, QWEN_HEADS),
    "Gemma3-1B-prefill": prefill(GEMMA, GEMMA_HEADS),
    "Gemma3-1B-decode": decode(GEMMA, GEMMA_HEADS),
    "Mixtral-block-prefill": Entry(
        partial(Block, Shared),
        (Input("hidden_states", ("batch", "sequence", 4096), torch.float32), POSITIONS),
        MIXTRAL_OUTPUTS,
    ),
    "Mixtral-block-decode": Entry(
        partial(Block, Chosen),
        one_sample(Input("hidden_states", ("batch", 1, 4096), torch.float32), POSITION, *MIXTRAL_HEADS.past()),
        MIXTRAL_OUTPUTS,
    ),
    "GPT2-decode": decode(GPT2, GPT2_HEADS),
    "GPT2-medium-decode": decode(GPT2_MEDIUM, GPT2_MEDIUM_HEADS),
}
