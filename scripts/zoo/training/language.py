"""Training steps of language models and of a recommender."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from scripts.zoo.training.common import (
    Step,
    Tree,
    adam,
    attention,
    chain,
    cross_entropy,
    dense,
    dense_weights,
    descent,
    images,
    indices,
    layer_norm,
    mix,
    moments_of,
    norm_weights,
    nothing_of,
    weight,
)
from scripts.zoo.training.vision import block_weights


def bert(
    batch: int = 32, length: int = 128, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 30522
) -> Step:
    """BERT (arXiv:1810.04805): 20 masked words of each sequence and the next sentence; without dropout."""
    parameters = {
        "words": weight(vocabulary, width),
        "positions": weight(512, width),
        "kinds": weight(2, width),
        "norm": norm_weights(width),
        "blocks": [block_weights(width, 4 * width) for _ in range(layers)],
        "pooler": dense_weights(width, width)[0],
        "next": dense_weights(width, 2)[0],
        "masked": dense_weights(width, width)[0],
        "masked_norm": norm_weights(width),
        "bias": weight(vocabulary),
    }

    def loss(
        p: Tree, words: jax.Array, kinds: jax.Array, places: jax.Array, labels: jax.Array, follows: jax.Array
    ) -> jax.Array:
        x = layer_norm(p["norm"], p["words"][words] + p["positions"][:length] + p["kinds"][kinds])
        for block in p["blocks"]:
            x = layer_norm(block["before"], x + attention(block["attention"], x, heads))
            y = dense(block["mlp"][1], jax.nn.gelu(dense(block["mlp"][0], x), approximate=False))
            x = layer_norm(block["between"], x + y)
        chosen = jnp.take_along_axis(x, places[..., None], 1)
        chosen = layer_norm(p["masked_norm"], jax.nn.gelu(dense(p["masked"], chosen), approximate=False))
        pooled = jnp.tanh(dense(p["pooler"], x[:, 0]))
        word_loss = cross_entropy(chosen @ p["words"].T + p["bias"], labels)
        return word_loss + cross_entropy(dense(p["next"], pooled), follows)

    inputs = (indices(batch, length), indices(batch, length), indices(batch, 20), indices(batch, 20), indices(batch))
    return Step(loss, parameters, inputs, adam, moments_of)


def gpt2(
    batch: int = 8, length: int = 512, layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257
) -> Step:
    """GPT-2, by default its small size; without dropout."""
    parameters = {
        "words": weight(vocabulary, width),
        "positions": weight(1024, width),
        "blocks": [block_weights(width, 4 * width) for _ in range(layers)],
        "norm": norm_weights(width),
    }

    def loss(p: Tree, words: jax.Array, labels: jax.Array) -> jax.Array:
        x = p["words"][words] + p["positions"][:length]
        for block in p["blocks"]:
            x = x + attention(block["attention"], layer_norm(block["before"], x), heads, causal=True)
            y = jax.nn.gelu(dense(block["mlp"][0], layer_norm(block["between"], x)))
            x = x + dense(block["mlp"][1], y)
        return cross_entropy(layer_norm(p["norm"], x) @ p["words"].T, labels)

    return Step(loss, parameters, (indices(batch, length), indices(batch, length)), adam, moments_of)


def llama(
    batch: int = 4,
    length: int = 512,
    layers: int = 4,
    width: int = 2048,
    heads: int = 32,
    key_heads: int = 8,
    hidden: int = 8192,
) -> Step:
    """Blocks of Llama with the sizes of its 1B model, between hidden states; each is computed again backwards."""
    size = width // heads
    parameters = [
        {
            "before": {"scale": weight(width)},
            "query": weight(width, width),
            "key": weight(width, key_heads * size),
            "value": weight(width, key_heads * size),
            "out": weight(width, width),
            "between": {"scale": weight(width)},
            "gate": weight(width, hidden),
            "up": weight(width, hidden),
            "down": weight(hidden, width),
        }
        for _ in range(layers)
    ]

    def scaled(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
        wide = x.astype(jnp.float32)
        return (wide * jax.lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + 1e-5)).astype(x.dtype) * p["scale"]

    def rotated(x: jax.Array) -> jax.Array:
        turns = 5e5 ** (-jnp.arange(0, size, 2, dtype=jnp.float32) / size)
        angles = jnp.arange(length, dtype=jnp.float32)[:, None] * turns
        cosine, sine = (f(angles)[:, None].astype(x.dtype) for f in (jnp.cos, jnp.sin))
        left, right = x[..., : size // 2], x[..., size // 2 :]
        return jnp.concatenate([left * cosine - right * sine, right * cosine + left * sine], -1)

    @jax.checkpoint
    def block(p: Tree, x: jax.Array) -> jax.Array:
        y = scaled(p["before"], x)
        query, key, value = ((y @ p[name]).reshape(batch, length, -1, size) for name in ("query", "key", "value"))
        key, value = (jnp.repeat(operand, heads // key_heads, 2) for operand in (rotated(key), value))
        x = x + mix(rotated(query), key, value, causal=True).reshape(x.shape) @ p["out"]
        y = scaled(p["between"], x)
        return x + (jax.nn.silu(y @ p["gate"]) * (y @ p["up"])) @ p["down"]

    def loss(p: Tree, x: jax.Array, wanted: jax.Array) -> jax.Array:
        for layer in p:
            x = block(layer, x)
        return jnp.square((x - wanted).astype(jnp.float32)).mean()

    hidden_states = images(batch, length, width)
    return Step(loss, parameters, (hidden_states, hidden_states), adam, moments_of)


def lstm(
    batch: int = 20,
    steps: int = 35,
    width: int = 650,
    layers: int = 2,
    vocabulary: int = 10000,
    unroll: bool = False,
) -> Step:
    """A language model of LSTMs (arXiv:1409.2329, the medium one), a scan over the words; without dropout."""
    parameters = {
        "words": weight(vocabulary, width),
        "cells": [dense_weights(2 * width, 4 * width)[0] for _ in range(layers)],
        "head": dense_weights(width, vocabulary)[0],
    }

    def loss(p: Tree, words: jax.Array, labels: jax.Array) -> jax.Array:
        x = p["words"][words].swapaxes(0, 1)
        for cell in p["cells"]:

            def step(
                state: tuple[jax.Array, jax.Array], now: jax.Array, cell: Tree = cell
            ) -> tuple[tuple[jax.Array, jax.Array], jax.Array]:
                hidden, memory = state
                gates = dense(cell, jnp.concatenate([now, hidden], -1))
                enter, forget, new, out = jnp.split(gates, 4, -1)
                memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(enter) * jnp.tanh(new)
                hidden = jax.nn.sigmoid(out) * jnp.tanh(memory)
                return (hidden, memory), hidden

            zeros = jnp.zeros((batch, width), x.dtype)
            _, x = jax.lax.scan(step, (zeros, zeros), x, unroll=unroll)
        return cross_entropy(dense(p["head"], x), labels.swapaxes(0, 1))

    return Step(loss, parameters, (indices(batch, steps), indices(batch, steps)), descent, nothing_of)


def dlrm(
    batch: int = 2048,
    dense_sizes: tuple[int, ...] = (13, 512, 256, 128),
    top_sizes: tuple[int, ...] = (1024, 1024, 512, 256, 1),
    tables: int = 26,
) -> Step:
    """The dense part of DLRM (arXiv:1906.00091, sizes of MLPerf): rows of the embedding tables come as inputs."""
    width, count = dense_sizes[-1], tables + 1
    parameters = {
        "bottom": dense_weights(*dense_sizes),
        "top": dense_weights(width + count * count, *top_sizes),
    }

    def loss(p: Tree, features: jax.Array, rows: jax.Array, clicks: jax.Array) -> jax.Array:
        x = jax.nn.relu(chain(p["bottom"], features))
        together = jnp.concatenate([x[:, None], rows], 1)
        pairs = jnp.einsum("bik,bjk->bij", together, together).reshape(batch, -1)
        logit = chain(p["top"], jnp.concatenate([x, pairs], -1))[:, 0].astype(jnp.float32)
        return (jnp.logaddexp(0.0, logit) - clicks * logit).mean()

    inputs = (images(batch, dense_sizes[0]), images(batch, tables, width), weight(batch))
    return Step(loss, parameters, inputs, descent, nothing_of)


STEPS = {
    "BERT-train": bert,
    "GPT2-train": gpt2,
    "Llama-blocks-train": llama,
    "LSTM-train": lstm,
    "DLRM-train": dlrm,
}
