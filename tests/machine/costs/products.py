"""Programs of one product."""

from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.program import Program, TensorKind


def one_product(pixels: int, depth: int, channels: int, count: int = 1) -> Program:
    """`count` products of int8: an input of pixels x depth times weights of depth x channels."""
    builder = ProgramBuilder("product", "int8")
    x = builder.tensor("x", count * pixels * depth, TensorKind.INPUT)
    w = builder.tensor("w", count * depth * channels, TensorKind.WEIGHT)
    y = builder.tensor("y", count * pixels * channels, TensorKind.OUTPUT)
    builder.op("MatMul", [x, w], [y], gemm=(count, pixels, depth, channels))
    return builder.build()
