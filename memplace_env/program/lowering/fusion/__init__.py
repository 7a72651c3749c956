"""Fusion of ops that a compiler runs as one. Work is conserved; only traffic between the fused ops disappears."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from memplace_env.program.lowering.buffer_ops import OpGraph
from memplace_env.program.lowering.fusion.convolutions import ChainRules, fuse_convolutions
from memplace_env.program.lowering.fusion.elementwise_chains import fuse_elementwise

_PASSES: Final[Mapping[str, tuple[Callable[[OpGraph], OpGraph], ...]]] = {
    "none": (),
    "activation": (partial(fuse_convolutions, rules=ChainRules(gates=False, residuals=False, one_activation=True)),),
    "chain": (
        partial(fuse_convolutions, rules=ChainRules(gates=False, residuals=True, one_activation=True)),
        partial(fuse_elementwise, into_products=False),
    ),
    "conv": (fuse_convolutions,),
    "epilogue": (fuse_convolutions, fuse_elementwise),
}

FUSIONS: Final = tuple(_PASSES)
"""The settings, from no fusion to most; only "chain" joins some ops that "conv" leaves apart."""


def fuse(graph: OpGraph, fusion: str) -> OpGraph:
    """Return the graph with ops fused by one of `FUSIONS`.

    - "none": nothing.
    - "activation": a convolution takes in BatchNormalization, constant scales and shifts, and one activation that alone
      reads its result; no gate and no residual. Arm's compilers for Ethos-U fuse like this.
    - "chain": also one residual Add, with the activation before or after it, and element-wise ops into one another, so
      that the Sigmoid and the Mul of a gate are one op; no such chain joins a product.
    - "conv": a convolution takes in the BatchNormalization, constant scales and shifts (these fold into its weights and
      bias), activations and one residual Add after it. The Add goes to the convolution whose result is the later of
      its operands.
    - "epilogue": as "conv", and element-wise ops join the element-wise ops and the one matrix product whose result, of
      the same size, only they read.

    A value fused away is no graph output and nothing outside the fused op reads it. A fused op runs when its last
    member would have run, so its operands are ready.
    """
    for one_pass in _PASSES[fusion]:
        graph = one_pass(graph)
    return graph
