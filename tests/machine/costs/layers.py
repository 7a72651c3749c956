"""Layers with known geometry, and random programs of them, for tests of tiled costs."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.machine.accelerator.tiling_description import EthosU
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program, TensorKind

CHIPS = ("ethos-u65", "ethos-u65-256", "ethos-u65-512", "ethos-u85-512", "ethos-u85-2048")
PRODUCTS = ("Conv", "DepthwiseConv", "ConvTranspose", "Gemm", "MatMul")
WINDOWED = ("Conv", "DepthwiseConv", "ConvTranspose", "MaxPool", "AveragePool")
ELEMENTWISE = ("Add", "Mul", "Concat", "Transpose")
TYPES = (*PRODUCTS, "MaxPool", "AveragePool", "GlobalAveragePool", "Sigmoid", *ELEMENTWISE)


def add_layer(
    builder: ProgramBuilder,
    op_type: str,
    *,
    source: int | None = None,
    batch: int = 1,
    height: int = 1,
    width: int = 1,
    channels: int = 1,
    depth: int | None = None,
    kernel: tuple[int, int] = (1, 1),
    stride: tuple[int, int] = (1, 1),
    dilation: int = 1,
    groups: int = 1,
    bias: bool = True,
    residual: bool = False,
    last: bool = True,
) -> int:
    """Adds a layer with a result of batch x height x width x depth elements of a byte; returns its result.

    Args:
        builder: of the program.
        op_type: one of `TYPES`; "DepthwiseConv" is a Conv, "Gemm" has weights, "MatMul" two activations; the result
            of "ConvTranspose", not its input, is larger by the stride.
        source: what is read; a new input if None.
        batch, height, width, depth: of the result; the depth of anything but a product is its channels.
        channels: of the input.
        kernel, stride: (y, x) of the window.
        dilation: distance of its elements in both directions; anything but a window has none.
        groups: of a "Conv"; channels and depth are rounded up to a multiple of them.
        bias: whether a product has a bias, anything else a constant operand.
        residual: whether a second activation of the result's size is read.
        last: whether the result is an output.
    """
    if op_type not in PRODUCTS or depth is None:
        depth = channels
    if op_type == "DepthwiseConv":
        depth = -(-depth // channels) * channels
    if op_type == "Conv":
        channels, depth = (-(-size // groups) * groups for size in (channels, depth))
    if op_type == "GlobalAveragePool":
        kernel, stride = (height * stride[0], width * stride[1]), (1, 1)
        inputs, height, width = kernel, 1, 1
    elif op_type == "ConvTranspose":
        inputs = -(-height // stride[0]), -(-width // stride[1])
    else:
        inputs = height * stride[0], width * stride[1]
    pixels, size = batch * height * width, batch * height * width * depth
    if source is None:
        source = builder.tensor("x", batch * inputs[0] * inputs[1] * channels, TensorKind.INPUT)
    operands, window = [source], kernel[0] * kernel[1]
    gemm = {
        "Conv": (groups, pixels, window * channels // groups, depth // groups),
        "DepthwiseConv": (channels, pixels, window, depth // channels),
        "ConvTranspose": (1, batch * inputs[0] * inputs[1], channels, depth * window),
        "Gemm": (1, pixels, channels, depth),
        "MatMul": (batch, height * width, channels, depth),
    }.get(op_type, (0, 0, 0, 0))
    if op_type in PRODUCTS:
        kind = TensorKind.INPUT if op_type == "MatMul" else TensorKind.WEIGHT
        operands.append(builder.tensor("w", gemm[0] * gemm[2] * gemm[3], kind))
    if bias:
        operands.append(builder.tensor("b", 4 * depth, TensorKind.WEIGHT))
    if residual:
        operands.append(builder.tensor("r", size, TensorKind.INPUT))
    result = builder.tensor("y", size, TensorKind.OUTPUT if last else TensorKind.ACTIVATION)
    geometry = dict(zip(("ifm_y", "ifm_x", "ifm_z"), (*inputs, channels), strict=True))
    geometry |= dict(zip(("ofm_y", "ofm_x", "ofm_z"), (height, width, depth), strict=True))
    geometry |= {"batch": batch, "stride_y": stride[0], "stride": stride[1]}
    if op_type in WINDOWED:
        geometry |= {"kernel_y": kernel[0], "kernel_x": kernel[1], "dilation": dilation}
    builder.op(
        "Conv" if op_type == "DepthwiseConv" else op_type,
        operands,
        [result],
        gemm=gemm,
        vector_ops=0 if op_type in (*PRODUCTS, "Concat", "Transpose") else size * window,
        geometry=geometry if op_type not in ("Gemm", "MatMul") else None,
    )
    return result


def layer(op_type: str, **shape: Any) -> Program:
    """A program of one layer."""
    builder = ProgramBuilder(op_type, "int8")
    add_layer(builder, op_type, **shape)
    return builder.build()


@st.composite
def shapes(draw: st.DrawFn, op_type: str) -> dict[str, Any]:
    """Arguments of `add_layer`: odd sizes, kernels of up to 9, and now and then more channels than any slice has."""
    side = st.integers(1, 20)
    window = op_type in WINDOWED
    depths = st.integers(1, 40) | st.integers(1, 300)
    return {
        "batch": draw(st.integers(1, 2)),
        "height": draw(side),
        "width": draw(side),
        "channels": draw(depths),
        "depth": draw(depths),
        "kernel": draw(st.tuples(*[st.integers(1, 9)] * 2)) if window else (1, 1),
        "stride": draw(st.tuples(*[st.integers(1, 3) | st.integers(1, 9)] * 2)) if window else (1, 1),
        "dilation": draw(st.sampled_from([1, 1, 2, 3, 4])) if window else 1,
        "groups": draw(st.sampled_from([1, 1, 2, 5])) if op_type == "Conv" else 1,
        "bias": draw(st.booleans()),
        "residual": draw(st.booleans()),
    }


@st.composite
def layered_programs(draw: st.DrawFn, max_ops: int = 3) -> Program:
    """Random layers one after the other; now and then one reads the input of the program instead."""
    builder, source = ProgramBuilder("layers", "int8"), None
    for op_type in draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=max_ops)):
        source = add_layer(builder, op_type, source=source, **draw(shapes(op_type)))
        source = source if draw(st.integers(0, 3)) else None
    return builder.build()


@st.composite
def ethos_u_chips(draw: st.DrawFn) -> Accelerator:
    """The shipped chips, half of them with other numbers."""
    chip = load_accelerator(draw(st.sampled_from(CHIPS)))
    return draw(varied(chip)) if draw(st.booleans()) else chip


@st.composite
def varied(draw: st.DrawFn, chip: Accelerator) -> Accelerator:
    """The chip with other buffers, cores, requests, bursts, latencies and memories."""
    unit = chip.tiling
    assert isinstance(unit, EthosU)
    words = tuple(draw(st.integers(1, 600)) for _ in unit.request_words)
    levels = tuple(
        replace(
            level,
            access=draw(st.none())
            if draw(st.integers(0, 9)) == 0
            else replace(
                level.access,
                burst_bytes=draw(st.integers(1, 300)),
                ports=draw(st.integers(1, 4)),
                outstanding_reads=draw(st.integers(1, 64)),
                outstanding_writes=draw(st.integers(1, 64)),
                read_latency_ps=draw(st.integers(0, 10**6)),
            ),
        )
        for level in chip.levels
    )
    return replace(
        chip,
        op_overhead_ps=draw(st.sampled_from([0, 777])),
        levels=(replace(levels[0], capacity_bytes=draw(st.integers(1, 40_000))), *levels[1:]),
        tiling=replace(
            unit,
            cores=draw(st.integers(1, 20)),
            buffer_bytes=tuple(draw(st.integers(1, 2 * size)) for size in unit.buffer_bytes),
            request_words=words,
            depth_slice=draw(st.sampled_from([8, 16, 24, 32, 64])),
            output_cycles=replace(unit.output_cycles, plain=Fraction(draw(st.integers(0, 9)), 7)),
        ),
    )
