"""Training steps of networks for images."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from scripts.zoo.training.common import (
    Shape,
    Step,
    Tree,
    adam,
    attention,
    attention_weights,
    batch_norm,
    convolution,
    cross_entropy,
    dense,
    dense_weights,
    images,
    indices,
    layer_norm,
    moments_of,
    momentum,
    momentum_of,
    norm_weights,
    weight,
)

RESNET50 = ((64, 3), (128, 4), (256, 6), (512, 3))


def conv_weights(size: int, channels: int, filters: int) -> dict[str, Tree]:
    return {"kernel": weight(size, size, channels, filters), "norm": norm_weights(filters)}


def conv_norm(p: dict[str, Tree], x: jax.Array, stride: int = 1) -> jax.Array:
    return batch_norm(p["norm"], convolution(p["kernel"], x, stride))


def resnet(batch: int = 32, pixels: int = 224, stages: tuple[tuple[int, int], ...] = RESNET50) -> Step:
    """ResNet v1.5 of bottlenecks (arXiv:1512.03385; the stride is in the 3x3), by default with 50 layers."""
    parameters: dict[str, Tree] = {"stem": conv_weights(7, 3, 64), "blocks": []}
    channels = 64
    for width, blocks in stages:
        for _ in range(blocks):
            block = {
                "a": conv_weights(1, channels, width),
                "b": conv_weights(3, width, width),
                "c": conv_weights(1, width, 4 * width),
            }
            if channels != 4 * width:
                block["short"] = conv_weights(1, channels, 4 * width)
            parameters["blocks"].append(block)
            channels = 4 * width
    parameters["head"] = dense_weights(channels, 1000)[0]
    strides = [2 if index == 0 and stage > 0 else 1 for stage, (_, n) in enumerate(stages) for index in range(n)]

    def loss(p: Tree, x: jax.Array, labels: jax.Array) -> jax.Array:
        x = jax.nn.relu(conv_norm(p["stem"], x, 2))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for block, stride in zip(p["blocks"], strides, strict=True):
            y = jax.nn.relu(conv_norm(block["a"], x))
            y = jax.nn.relu(conv_norm(block["b"], y, stride))
            short = conv_norm(block["short"], x, stride) if "short" in block else x
            x = jax.nn.relu(conv_norm(block["c"], y) + short)
        return cross_entropy(dense(p["head"], x.mean((1, 2))), labels)

    return Step(loss, parameters, (images(batch, pixels, pixels, 3), indices(batch)), momentum, momentum_of)


def block_weights(width: int, hidden: int) -> dict[str, Tree]:
    return {
        "before": norm_weights(width),
        "attention": attention_weights(width),
        "between": norm_weights(width),
        "mlp": dense_weights(width, hidden, width),
    }


def vit(batch: int = 64, layers: int = 12, width: int = 384, heads: int = 6, pixels: int = 224) -> Step:
    """ViT with patches of 16 pixels (arXiv:2010.11929), by default its small size."""
    patches = (pixels // 16) ** 2
    parameters = {
        "patches": dense_weights(16 * 16 * 3, width)[0],
        "token": weight(1, 1, width),
        "positions": weight(patches + 1, width),
        "blocks": [block_weights(width, 4 * width) for _ in range(layers)],
        "norm": norm_weights(width),
        "head": dense_weights(width, 1000)[0],
    }

    def loss(p: Tree, x: jax.Array, labels: jax.Array) -> jax.Array:
        x = dense(p["patches"], as_patches(x))
        token = jnp.broadcast_to(p["token"], (batch, 1, width))
        x = jnp.concatenate([token, x], 1) + p["positions"]
        for block in p["blocks"]:
            x = x + attention(block["attention"], layer_norm(block["before"], x), heads)
            y = jax.nn.gelu(dense(block["mlp"][0], layer_norm(block["between"], x)))
            x = x + dense(block["mlp"][1], y)
        return cross_entropy(dense(p["head"], layer_norm(p["norm"], x)[:, 0]), labels)

    return Step(loss, parameters, image_batch(batch, pixels), adam, moments_of)


def mixer(batch: int = 64, layers: int = 8, width: int = 512, pixels: int = 224) -> Step:
    """MLP-Mixer with patches of 16 pixels (arXiv:2105.01601), by default its small size."""
    patches = (pixels // 16) ** 2
    parameters = {
        "patches": dense_weights(16 * 16 * 3, width)[0],
        "blocks": [
            {
                "before": norm_weights(width),
                "tokens": dense_weights(patches, width // 2, patches),
                "between": norm_weights(width),
                "channels": dense_weights(width, 4 * width, width),
            }
            for _ in range(layers)
        ],
        "norm": norm_weights(width),
        "head": dense_weights(width, 1000)[0],
    }

    def loss(p: Tree, x: jax.Array, labels: jax.Array) -> jax.Array:
        x = dense(p["patches"], as_patches(x))
        for block in p["blocks"]:
            y = layer_norm(block["before"], x).swapaxes(1, 2)
            x = x + dense(block["tokens"][1], jax.nn.gelu(dense(block["tokens"][0], y))).swapaxes(1, 2)
            y = layer_norm(block["between"], x)
            x = x + dense(block["channels"][1], jax.nn.gelu(dense(block["channels"][0], y)))
        return cross_entropy(dense(p["head"], layer_norm(p["norm"], x).mean(1)), labels)

    return Step(loss, parameters, image_batch(batch, pixels), adam, moments_of)


def unet(batch: int = 8, pixels: int = 256, widths: tuple[int, ...] = (64, 128, 256, 512, 1024)) -> Step:
    """U-Net (arXiv:1505.04597) with same padding and batch normalisation: a class of two for each pixel."""

    def pair(channels: int, width: int) -> list[dict[str, Tree]]:
        return [conv_weights(3, channels, width), conv_weights(3, width, width)]

    parameters = {
        "down": [pair(channels, width) for channels, width in zip((3, *widths), widths, strict=False)],
        "up": [weight(2, 2, 2 * width, width) for width in widths[:-1]],
        "merge": [pair(2 * width, width) for width in widths[:-1]],
        "head": weight(1, 1, widths[0], 2),
    }

    def twice(p: list[dict[str, Tree]], x: jax.Array) -> jax.Array:
        for layer in p:
            x = jax.nn.relu(conv_norm(layer, x))
        return x

    def loss(p: Tree, x: jax.Array, labels: jax.Array) -> jax.Array:
        skipped = []
        for level, layer in enumerate(p["down"]):
            if level:
                x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
            x = twice(layer, x)
            skipped.append(x)
        for level in reversed(range(len(widths) - 1)):
            x = jax.lax.conv_transpose(x, p["up"][level], (2, 2), "VALID")
            x = twice(p["merge"][level], jnp.concatenate([skipped[level], x], -1))
        return cross_entropy(convolution(p["head"], x), labels)

    return Step(
        loss, parameters, (images(batch, pixels, pixels, 3), indices(batch, pixels, pixels)), momentum, momentum_of
    )


def as_patches(x: jax.Array) -> jax.Array:
    """[batch, height, width, 3] as [batch, patches, 16 x 16 x 3]."""
    batch, height, width, channels = x.shape
    x = x.reshape(batch, height // 16, 16, width // 16, 16, channels).swapaxes(2, 3)
    return x.reshape(batch, -1, 16 * 16 * channels)


def image_batch(batch: int, pixels: int) -> tuple[Shape, Shape]:
    return images(batch, pixels, pixels, 3), indices(batch)


STEPS = {"ResNet50-train": resnet, "ViT-small-train": vit, "MLP-Mixer-train": mixer, "UNet-train": unet}
