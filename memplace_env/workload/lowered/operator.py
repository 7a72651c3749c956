"""What the loader knows of one ONNX operator: the type of a row of `operator_table.OPERATORS`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Flag, auto
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx import NodeProto

    from memplace_env.workload.lowered.graph import Site
    from memplace_env.workload.lowered.rules.products import Gemm
    from memplace_env.workload.lowered.values import Value
    from memplace_env.workload.onnx.rules.folds import Fold
    from memplace_env.workload.onnx.rules.sequences import SequenceSite, Unrolled


class BehindConv(Flag):
    """What an operator can be to the convolution before it, for fusion "conv".

    Members:
        NORMALISATION: a scale and a shift per channel of input 0.
        SHIFT: adds or subtracts its operands.
        SCALE: multiplies its operands.
        QUOTIENT: divides input 0 by input 1, so a scale of input 0 only.
        ACTIVATION: a function of input 0 that may have constants beside it.
        GATE: multiplies the convolution's result by a function of itself.
        RESIDUAL: adds another tensor of the same size.
    """

    NOTHING = 0
    NORMALISATION = auto()
    SHIFT = auto()
    SCALE = auto()
    QUOTIENT = auto()
    ACTIVATION = auto()
    GATE = auto()
    RESIDUAL = auto()
    ARITHMETIC = SHIFT | SCALE | QUOTIENT


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the standard ONNX domain.

    A node becomes an op of the Program if its operator has a `product` or `vector_ops` rule. Others must be gone by
    then: views, constants, chosen branches.

    Attributes:
        name: what ONNX calls it.
        product: its matrix products, from the shapes around a node; None if it has none.
        vector_ops: number of its element operations, from the shapes around a node; None counts as 0.
        weight: input position of its filters or right-hand matrix, if it has a `product`.
        bias: input position of its bias, if it is a `conv_head`.
        parameters: input positions that steer the op (axes, pads, ...): constants there are no tensors.
        gathers: input 0 is a table of which only the rows that end up in the result are read.
        view: the input position whose buffer a node's only result is, None if it is a tensor of its own; the rule is
            asked only about nodes of whose outputs the first alone is used. Without a rule it is never a view.
        view_of_constants: if input 0 is constant, the result is a view of it: it is stored as it is needed.
        elementwise: each result element depends on one element of each operand, so fusion "epilogue" can move it.
        conv_head: fusion "conv" takes what is behind it into it.
        epilogue_head: fusion "epilogue" takes element-wise ops behind it into it.
        behind_conv: what fusion "conv" can take it for behind a `conv_head`.
        channels_first: a three-dimensional tensor is [batch, channels, width], not [batch, length, features].
        filters: its weight is [filters, channels, ...kernel], and gives the window of `Program.geometry`.
        activated: its result went through a non-linear function inside it, as operators of .tflite files can say.
        random: its result is no constant even if its inputs are.
        fold: its results where all operands are known and small; None: they stay unknown.
        sized_by_data: its output sizes are known once it is folded, and its inputs bound them.
        value: its only output, for an operator that needs neither shape inference nor an op.
        sequence: what stands for a node that makes or reads a sequence of tensors.
        fallback_shape: its only output, from its inputs, where ONNX infers none because a version of the operator is
            defined by a function only.
        keeps_elements: its result must have as many elements as input 0, which ONNX's inference does not check.
        branches: control flow that picks one of its subgraphs.
        loops: control flow that repeats its subgraph, which is not supported.
    """

    name: str
    _: KW_ONLY
    product: Callable[[Site], Gemm] | None = None
    vector_ops: Callable[[Site], int] | None = None
    weight: int = 1
    bias: int = 2
    parameters: tuple[int, ...] = ()
    gathers: bool = False
    view: Callable[[Site], int | None] | None = None
    view_of_constants: bool = False
    elementwise: bool = False
    conv_head: bool = False
    epilogue_head: bool = False
    behind_conv: BehindConv = BehindConv.NOTHING
    channels_first: bool = False
    filters: bool = False
    activated: bool = False
    random: bool = False
    fold: Fold | None = None
    sized_by_data: bool = False
    value: Callable[[NodeProto, Sequence[Value]], Value] | None = None
    sequence: Callable[[SequenceSite], Unrolled] | None = None
    fallback_shape: Callable[..., Value] | None = None
    keeps_elements: bool = False
    branches: bool = False
    loops: bool = False

    @property
    def stays(self) -> bool:
        """Whether its nodes can be ops or views, so that they need not be gone once shapes are known."""
        return self.works or self.view is not None

    @property
    def works(self) -> bool:
        """Whether its nodes can be ops of a Program."""
        return self.product is not None or self.vector_ops is not None
