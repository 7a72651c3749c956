"""Layers, losses, optimisers and the frame of training steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

Tree = Any
Shape = jax.ShapeDtypeStruct


@dataclass(frozen=True)
class Step:
    """A training step.

    Attributes:
        loss: of parameters in bfloat16 and a batch.
        parameters: shapes, in float32.
        batch: shapes of what else goes in.
        optimiser: the update.
    """

    loss: Callable[..., jax.Array]
    parameters: Tree
    batch: tuple[Shape, ...]
    optimiser: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]
    slots: Callable[[Tree], Tree]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Return the state (parameters and the optimiser's memory) and the batch."""
        return ((self.parameters, self.slots(self.parameters)), *self.batch)

    def __call__(self, state: Tree, *batch: jax.Array) -> tuple[Tree, jax.Array]:
        """Return the new state and the loss; parameters are kept in float32 and used in bfloat16."""
        parameters, memory = state

        def mixed(parameters: Tree) -> jax.Array:
            return self.loss(jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), parameters), *batch)

        loss, gradients = jax.value_and_grad(mixed)(parameters)
        return self.optimiser(parameters, memory, gradients), loss


def weight(*dims: int) -> Shape:
    return Shape(dims, jnp.float32)


def indices(*dims: int) -> Shape:
    return Shape(dims, jnp.int32)


def images(*dims: int) -> Shape:
    return Shape(dims, jnp.bfloat16)


def momentum_of(parameters: Tree) -> Tree:
    return parameters


def momentum(parameters: Tree, memory: Tree, gradients: Tree) -> tuple[Tree, Tree]:
    """Stochastic gradient descent with momentum 0.9 and weight decay 1e-4."""
    velocity = jax.tree.map(lambda v, g, p: 0.9 * v + g + 1e-4 * p, memory, gradients, parameters)
    return jax.tree.map(lambda p, v: p - 0.1 * v, parameters, velocity), velocity


def nothing_of(parameters: Tree) -> Tree:
    return ()


def descent(parameters: Tree, memory: Tree, gradients: Tree) -> tuple[Tree, Tree]:
    """Stochastic gradient descent."""
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), memory


def moments_of(parameters: Tree) -> Tree:
    return parameters, parameters, indices()


def adam(parameters: Tree, memory: Tree, gradients: Tree) -> tuple[Tree, Tree]:
    """Adam with decoupled weight decay 0.01 (arXiv:1412.6980, arXiv:1711.05101)."""
    first, second, count = memory
    count = count + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, gradients)
    time = count.astype(jnp.float32)
    rate = 1e-4 * jnp.sqrt(1 - 0.999**time) / (1 - 0.9**time)
    moved = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8) - 1e-6 * p, parameters, first, second)
    return moved, (first, second, count)


def dense_weights(*sizes: int) -> list[dict[str, Shape]]:
    """Return the weights of a chain of dense layers."""
    return [{"w": weight(a, b), "b": weight(b)} for a, b in pairwise(sizes)]


def dense(layer: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x @ layer["w"] + layer["b"]


def norm_weights(size: int) -> dict[str, Shape]:
    return {"scale": weight(size), "shift": weight(size)}


def layer_norm(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Return the layer norm of x; statistics in float32."""
    wide = x.astype(jnp.float32)
    centred = wide - wide.mean(-1, keepdims=True)
    normal = centred * jax.lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + 1e-6)
    return normal.astype(x.dtype) * p["scale"] + p["shift"]


def batch_norm(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """Return the batch norm of x; statistics of the batch in float32; x is [batch, height, width, channels]."""
    wide = x.astype(jnp.float32)
    mean = wide.mean((0, 1, 2))
    spread = jax.lax.rsqrt(jnp.square(wide).mean((0, 1, 2)) - jnp.square(mean) + 1e-5)
    return ((wide - mean) * spread).astype(x.dtype) * p["scale"] + p["shift"]


def convolution(kernel: jax.Array, x: jax.Array, stride: int = 1) -> jax.Array:
    """Return a convolution with same padding; kernels are [height, width, channels, filters]."""
    layout = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=layout)


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Return the mean cross entropy over all but the last dim, in float32."""
    logs = jax.nn.log_softmax(logits.astype(jnp.float32))
    return -jnp.take_along_axis(logs, labels[..., None], -1).mean()


def attention_weights(width: int) -> dict[str, Tree]:
    return {"qkv": dense_weights(width, 3 * width)[0], "out": dense_weights(width, width)[0]}


def attention(p: dict[str, Tree], x: jax.Array, heads: int, causal: bool = False) -> jax.Array:
    """Return self-attention of x [batch, length, width]; scores go through the softmax in float32."""
    batch, length, width = x.shape
    split = dense(p["qkv"], x).reshape(batch, length, 3, heads, width // heads)
    query, key, value = (split[:, :, part] for part in range(3))
    mixed = mix(query, key, value, causal)
    return dense(p["out"], mixed.reshape(batch, length, width))


def mix(query: jax.Array, key: jax.Array, value: jax.Array, causal: bool) -> jax.Array:
    """Return attention by scaled dot products of [batch, length, heads, size]."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key).astype(jnp.float32) * query.shape[-1] ** -0.5
    if causal:
        seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        scores = jnp.where(seen, scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores).astype(value.dtype), value)


def chain(layers: Sequence[dict[str, jax.Array]], x: jax.Array) -> jax.Array:
    """Dense layers with ReLU between them."""
    for layer in layers[:-1]:
        x = jax.nn.relu(dense(layer, x))
    return dense(layers[-1], x)
