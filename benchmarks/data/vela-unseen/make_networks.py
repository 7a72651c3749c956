"""Build the networks of this folder: whole ones for Vela to compile, and here those without weights.

    python benchmarks/data/vela-unseen/make_networks.py FOLDER [NETWORK ...]

Needs tensorflow-cpu 2.21 in an environment of its own.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import flatbuffers
import keras
import numpy as np
import tensorflow as tf
from keras import layers as L  # noqa: N812
from keras import ops
from tensorflow.lite.python import schema_py_generated as schema


class Tokens(L.Layer):
    """A learned token before the others, and learned positions."""

    def build(self, shape: Any) -> None:
        self.token = self.add_weight(shape=(1, 1, shape[2]))
        self.positions = self.add_weight(shape=(1, shape[1] + 1, shape[2]), initializer="random_normal")

    def call(self, x: Any) -> Any:
        return ops.concatenate([self.token, x], axis=1) + self.positions


class Norm(L.Layer):
    """Layer normalisation of operators that the converter quantises, which it does not with Keras's own."""

    def build(self, shape: Any) -> None:
        one = partial(self.add_weight, shape=shape[-1:], initializer="random_normal")
        self.scale, self.shift = one(), one()

    def call(self, x: Any) -> Any:
        mean = ops.mean(x, axis=-1, keepdims=True)
        spread = ops.mean(tf.math.squared_difference(x, mean), axis=-1, keepdims=True)
        return (x - mean) * tf.math.rsqrt(spread + 1e-6) * (1 + self.scale) + self.shift


def conv(x: Any, channels: int, size: Any = 1, stride: int = 1, act: str | None = "relu", **more: Any) -> Any:
    x = L.Conv2D(channels, size, stride, padding="same", use_bias=False, **more)(x)
    x = L.BatchNormalization()(x)
    return L.Activation(act)(x) if act else x


def depthwise(x: Any, size: int = 3, stride: int = 1, act: str | None = None) -> Any:
    x = L.BatchNormalization()(L.DepthwiseConv2D(size, stride, padding="same", use_bias=False)(x))
    return L.Activation(act)(x) if act else x


def classes(x: Any, count: int = 1000) -> Any:
    return L.Dense(count, activation="softmax")(L.GlobalAveragePooling2D()(x) if len(x.shape) == 4 else x)


def shufflenet_v2(x: Any) -> Any:
    x = L.MaxPool2D(3, 2, "same")(conv(x, 24, 3, 2))
    for channels, many in ((116, 4), (232, 8), (464, 4)):
        for step in range(many):
            left, right = ops.split(x, 2, axis=-1) if step else (conv(depthwise(x, stride=2), channels // 2), x)
            right = conv(depthwise(conv(right, channels // 2), stride=1 if step else 2), channels // 2)
            x = ops.concatenate([left, right], axis=-1)
            x = L.Permute((1, 2, 4, 3))(L.Reshape((*x.shape[1:3], 2, channels // 2))(x))
            x = L.Reshape((*x.shape[1:3], channels))(x)
    return classes(conv(x, 1024))


def ghost(x: Any, channels: int, act: str | None) -> Any:
    first = conv(x, channels // 2, act=act)
    return ops.concatenate([first, depthwise(first, act=act)], axis=-1)


def ghostnet(x: Any) -> Any:
    x = conv(x, 16, 3, 2)
    rows = (
        "3 16 16 0 1|3 48 24 0 2|3 72 24 0 1|5 72 40 1 2|5 120 40 1 1|3 240 80 0 2|3 200 80 0 1|3 184 80 0 1|"
        "3 184 80 0 1|3 480 112 1 1|3 672 112 1 1|5 672 160 1 2|5 960 160 0 1|5 960 160 1 1|5 960 160 0 1|5 960 160 1 1"
    )
    for size, wide, channels, squeezes, stride in (map(int, row.split()) for row in rows.split("|")):
        y = ghost(x, wide, "relu")
        y = depthwise(y, size, stride) if stride > 1 else y
        if squeezes:
            gate = L.Conv2D(wide // 4, 1, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(y))
            y = y * L.Conv2D(wide, 1, activation="hard_sigmoid")(gate)
        y = ghost(y, channels, None)
        x = y + (x if stride == 1 and x.shape[-1] == channels else conv(depthwise(x, size, stride), channels, act=None))
    return classes(L.Conv2D(1280, 1, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(conv(x, 960)))[:, 0, 0])


def regnet_x_400(x: Any) -> Any:
    x = conv(x, 32, 3, 2)
    for channels, many in ((32, 1), (64, 2), (160, 7), (384, 12)):
        for step in range(many):
            y = conv(conv(x, channels), channels, 3, 1 if step else 2, groups=channels // 16)
            x = L.ReLU()(conv(y, channels, act=None) + (x if step else conv(x, channels, 1, 2, act=None)))
    return classes(x)


def googlenet(x: Any) -> Any:
    x = conv(conv(L.MaxPool2D(3, 2, "same")(conv(x, 64, 7, 2)), 64), 192, 3)
    rows = (
        "pool|64 96 128 16 32 32|128 128 192 32 96 64|pool|192 96 208 16 48 64|160 112 224 24 64 64"
        "|128 128 256 24 64 64|112 144 288 32 64 64|256 160 320 32 128 128|pool|256 160 320 32 128 128"
        "|384 192 384 48 128 128"
    )
    for row in rows.split("|"):
        if row == "pool":
            x = L.MaxPool2D(3, 2, "same")(x)
        else:
            one, before3, three, before5, five, pooled = map(int, row.split())
            parts = [conv(x, one), conv(conv(x, before3), three, 3), conv(conv(x, before5), five, 5)]
            x = ops.concatenate([*parts, conv(L.MaxPool2D(3, 1, "same")(x), pooled)], axis=-1)
    return classes(x)


def basic(x: Any, channels: int, size: Any = 3, **more: Any) -> Any:
    y = conv(conv(x, channels, size, **more), channels, size, act=None, **more)
    return L.ReLU()(y + (x if x.shape[-1] == channels else conv(x, channels, act=None)))


def hrnet(x: Any) -> Any:
    widths = 16, 32, 64
    branches = [conv(conv(conv(x, 64, 3, 2), 64, 3, 2), 16, 3)]
    for width in widths[1:]:
        branches.append(conv(branches[-1], width, 3, 2))
    for _ in range(2):
        branches = [basic(basic(y, width), width) for y, width in zip(branches, widths, strict=True)]
        branches = [L.ReLU()(sum(moved(y, i, j, widths[j]) for i, y in enumerate(branches))) for j in range(3)]
    return L.Conv2D(17, 1)(branches[0])


def moved(x: Any, source: int, target: int, channels: int) -> Any:
    """Return a feature map at another branch's resolution."""
    for step in range(source, target):
        x = conv(x, channels if step == target - 1 else x.shape[-1], 3, 2, act=None if step == target - 1 else "relu")
    return L.UpSampling2D(2 ** (source - target))(conv(x, channels, act=None)) if source > target else x


def perceptron(x: Any, wide: int) -> Any:
    return L.Dense(x.shape[-1])(L.Dense(wide, activation="gelu")(x))


def mixer_s16(x: Any) -> Any:
    x = L.Reshape((-1, 512))(L.Conv2D(512, 16, 16)(x))
    for _ in range(8):
        x = x + L.Permute((2, 1))(perceptron(L.Permute((2, 1))(Norm()(x)), 256))
        x = x + perceptron(Norm()(x), 2048)
    return classes(L.GlobalAveragePooling1D()(Norm()(x)))


def deit_tiny(x: Any, heads: int = 3, channels: int = 192) -> Any:
    x = Tokens()(L.Reshape((-1, channels))(L.Conv2D(channels, 16, 16)(x)))
    many, width = x.shape[1], channels // heads
    for _ in range(12):
        y = Norm()(x)
        query, key, value = (L.Permute((2, 1, 3))(L.Reshape((many, heads, width))(L.Dense(channels)(y))) for _ in "qkv")
        weights = L.Softmax()(ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) * width**-0.5)
        y = L.Reshape((many, channels))(L.Permute((2, 1, 3))(ops.matmul(weights, value)))
        x = x + L.Dense(channels)(y)
        x = x + perceptron(Norm()(x), 4 * channels)
    return classes(Norm()(x)[:, 0])


def tcn(x: Any) -> Any:
    for dilation in (1, 2, 4, 8, 16, 32) * 2:
        x = basic(x, 64, (1, 3), dilation_rate=(1, dilation))
    return classes(x, 12)


def convmixer(x: Any) -> Any:
    x = L.BatchNormalization()(L.Conv2D(256, 7, 7, activation="gelu")(x))
    for _ in range(8):
        x = x + L.BatchNormalization()(L.DepthwiseConv2D(9, padding="same", activation="gelu")(x))
        x = L.BatchNormalization()(L.Conv2D(256, 1, activation="gelu")(x))
    return classes(x)


def edsr(x: Any) -> Any:
    plain = partial(L.Conv2D, kernel_size=3, padding="same")
    x = first = plain(64)(x)
    for _ in range(16):
        x = x + plain(64)(plain(64, activation="relu")(x))
    return plain(256)(first + plain(64)(x))


def landmarks(x: Any) -> Any:
    x = L.PReLU(shared_axes=[1, 2])(conv(x, 16, 3, 2, act=None))
    for channels, many in ((16, 2), (32, 3), (64, 3), (128, 3), (128, 3), (128, 3)):
        for step in range(many):
            stride = 2 if channels > 16 and not step else 1
            y = conv(depthwise(x, stride=stride), channels, act=None)
            x = L.MaxPool2D(2)(x) if stride > 1 else x
            x = ops.pad(x, [(0, 0)] * 3 + [(0, channels - x.shape[-1])]) if x.shape[-1] < channels else x
            x = L.PReLU(shared_axes=[1, 2])(y + x)
    return L.Flatten()(L.Conv2D(3 * 468, 3)(x))


RANGES = {L.BatchNormalization: (0.5, 1.5), L.PReLU: (0, 0.5)}
PHOTO = 224, 224, 3
NETWORKS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "densenet121": (None, PHOTO), "shufflenet_v2": (shufflenet_v2, PHOTO), "ghostnet": (ghostnet, PHOTO),
    "regnet_x_400": (regnet_x_400, PHOTO), "googlenet": (googlenet, PHOTO), "hrnet": (hrnet, (256, 192, 3)),
    "mixer_s16": (mixer_s16, PHOTO), "deit_tiny": (deit_tiny, PHOTO), "tcn": (tcn, (1, 256, 40)),
    "convmixer": (convmixer, PHOTO), "edsr": (edsr, (96, 96, 3)), "landmarks": (landmarks, (192, 192, 3)),
}  # fmt: skip


def quantised(name: str) -> bytes:
    """Return the network as an int8 .tflite file with random weights."""
    keras.utils.set_random_seed(0)
    body, shape = NETWORKS[name]
    x, draw = keras.Input(shape, batch_size=1), np.random.default_rng(0)
    model = keras.Model(x, body(x), name=name) if body else keras.applications.DenseNet121(weights=None, input_tensor=x)
    for layer in model.layers:
        if type(layer) in RANGES:
            layer.set_weights([draw.uniform(*RANGES[type(layer)], weights.shape) for weights in layer.get_weights()])
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([draw.random((1, *shape), dtype=np.float32)] for _ in range(2))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    return bytes(converter.convert())


def stripped(data: bytes) -> bytes:
    """Return the network without quantisation, metadata and the bytes of all but small constants."""
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    for buffer in model.buffers:
        if buffer.data is not None and len(buffer.data) > 256:
            buffer.data = None
    for tensor in model.subgraphs[0].tensors:
        tensor.quantization = None
    model.metadata = model.signatureDefs = model.metadataBuffer = None
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


if __name__ == "__main__":
    full, *names = sys.argv[1:]
    for name in names or NETWORKS:
        data = quantised(name)
        Path(full, f"{name}.tflite").write_bytes(data)
        Path(__file__).with_name(f"{name}.tflite").write_bytes(stripped(data))
