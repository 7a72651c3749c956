"""A light graph in ONNX's terms: operators, nodes, values mostly without contents, and errors of damaged nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field
from enum import Flag, auto
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.lowering.graph_values import Array, Shape, Value
from memplace_env.program.lowering.independence import SiteAxes

if TYPE_CHECKING:
    from onnx import NodeProto

    from memplace_env.program.frontends.onnx.rules.sequences import SequenceSite, Unrolled
    from memplace_env.program.frontends.onnx.rules.shape_folds import Fold


_OF_RULES: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""Types of the errors that rules raise on damaged nodes."""


@dataclass(slots=True)
class ErrorsOfRules:
    """Context that turns what a rule raises into a WorkloadError.

    Attributes:
        subject: what the message is about, such as "Attributes and operands of node 'x'".
    """

    subject: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, _OF_RULES) and not isinstance(error, WorkloadError):
            raise WorkloadError(f"{self.subject} do not fit together: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """Return the text of an error as the end of a message: on one line, with a full stop."""
    text = " ".join(str(error).split())
    return text if text.endswith(".") else text + "."


Gemm = tuple[int, int, int, int]
"""(count, rows, depth, columns): `count` products of [rows, depth] x [depth, columns], with as many MACs as the product
of the four."""


class BehindConv(Flag):
    """Roles of an operator that reads a convolution's result, for fusion "conv".

    Members:
        NORMALISATION: a scale and a shift per channel of input 0.
        SHIFT: adds or subtracts its operands.
        SCALE: multiplies its operands.
        QUOTIENT: divides input 0 by input 1, so a scale of input 0 only.
        ACTIVATION: a function of input 0, with constants at most as further operands.
        GATE: multiplies the convolution's result by a function of that result.
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
    """One operator of ONNX, or of the files that ONNX Runtime optimised.

    A node becomes an op of the Program if its operator has a `product` or `vector_ops` rule. All others must disappear
    before: views, constants, chosen branches. The rules are functions of the shapes around a node.

    Attributes:
        name: ONNX's name.
        product: rule for its matrix products; None without any.
        vector_ops: rule for the number of its element operations; None counts as 0.
        axes: rule for the axes along which it treats its tensors independently, from a node and whether feature maps
            are channels-last; None: they stay whole.
        weight: input position of its filters or right-hand matrix, if it has a `product`.
        bias: input position of its bias, if it is a `conv_head`.
        parameters: input positions of parameters (axes, pads, ...), where constants are not tensors of the Program.
        gathers: input positions of tables, of which only the rows in the result are read.
        updates: input position of elements that are written over some of input 0, all others of which the result keeps.
        tuples: input positions of tensors whose last axis is read whole, if the operator only moves elements.
        view: rule for the input position that a node's only result is a view of, None for a tensor of its own; called
            only for nodes that use the first output alone. Without a rule the result is never a view.
        view_of_constants: whether the result for a constant input 0 is a view, stored in the form that is needed.
        order: rule for the axes of input 0 in the order that its result has them; None: elements keep their order.
        elementwise: whether each result element depends on one element of each operand, so that "epilogue" can fuse it
            and a result may lie in the place of any operand that is not broadcast.
        rowwise: whether its kernels read what a row of input 0 is normalised by before they write the row, element by
            element, so that a result may lie in the place of that input.
        conv_head: whether fusion "conv" fuses the ops after it into it.
        epilogue_head: whether fusion "epilogue" fuses element-wise ops after it into it.
        behind_conv: roles for fusion "conv" after a `conv_head`.
        channels_first: whether a three-dimensional tensor is [batch, channels, width], not [batch, length, features].
        filters: whether its weight is [filters, channels, ...kernel] and gives the window of `Program.geometry`.
        activated: whether it includes a non-linear function of its result, as operators of .tflite files can.
        random: whether its result is no constant even if its inputs are.
        fold: its results where all operands are known and small; None: they stay unknown.
        sized_by_data: whether its output sizes are known only by folding, and bounded by its inputs.
        value: its only output, for an operator that needs neither shape inference nor an op.
        sequence: the replacement of a node that makes or reads a sequence of tensors.
        shapes: rule for its outputs, by position, where ONNX infers none: a version of the operator is defined by a
            function only, or it is not of ONNX. The site has no outputs yet.
        largest: rule for the largest shapes of its outputs, by position, where the data decide their size; None: any
            size that is passed will do. The site has no outputs yet.
        keeps_elements: whether its result must have as many elements as input 0, which ONNX's inference does not check.
        written: number of its first outputs that its kernel writes even if nothing reads them, None for all.
        pooled: rule for the shape of its outputs, from a node without outputs and the shape that ONNX infers.
        branches: whether it is control flow that picks one of its subgraphs.
        loops: whether it is control flow that repeats its subgraph.
    """

    name: str
    _: KW_ONLY
    product: Callable[[Site], Gemm] | None = None
    vector_ops: Callable[[Site], int] | None = None
    axes: Callable[[Site, bool], SiteAxes] | None = None
    weight: int = 1
    bias: int = 2
    parameters: tuple[int, ...] = ()
    gathers: tuple[int, ...] = ()
    updates: int | None = None
    tuples: tuple[int, ...] = ()
    view: Callable[[Site], int | None] | None = None
    view_of_constants: bool = False
    order: Callable[[Site], Sequence[int]] | None = None
    elementwise: bool = False
    rowwise: bool = False
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
    shapes: Callable[[Site], Sequence[Value | None]] | None = None
    largest: Callable[[Site], Sequence[Shape]] | None = None
    keeps_elements: bool = False
    written: int | None = 1
    pooled: Callable[[Site, Shape], Shape] | None = None
    branches: bool = False
    loops: bool = False

    @property
    def stays(self) -> bool:
        """True if its nodes can be ops or views, so that they may remain once shapes are known."""
        return self.works or self.view is not None

    @property
    def works(self) -> bool:
        """True if its nodes can be ops of a Program."""
        return self.product is not None or self.vector_ops is not None


@dataclass(frozen=True, slots=True)
class Node:
    """One node of the graph, with all of its attributes read.

    Attributes:
        operator: properties of its operator.
        name: from the file, or generated.
        inputs: value names, "" for an absent optional input.
        outputs: value names, "" for an absent optional output; none for an op that decides what runs.
        attributes: by name.
        captured: names of values that are computed although it may not read them.
        covers: names of the source graph's nodes that it stands for; empty for a node of that graph.
    """

    operator: Operator
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    captured: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeGraph:
    """A graph whose shapes are all known, with constants still in place.

    Attributes:
        nodes: in execution order.
        values: by name; outputs that nothing reads may be missing.
        outputs: names of the graph's outputs.
        channels_last: whether feature maps are [batch, height, width, channels]; filters are as in ONNX even so.
        choices: by description of a node whose branch the data choose, the graphs of the branch taken and of the other.
        notes: what else was assumed, in sentences.
    """

    nodes: tuple[Node, ...]
    values: Mapping[str, Value]
    outputs: tuple[str, ...]
    channels_last: bool = False
    choices: Mapping[str, Mapping[str, NodeGraph]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Site:
    """A node and the values around it, the argument of an operator's rules.

    Attributes:
        node: the node.
        inputs: by the node's positions, None where one is absent.
        outputs: by the node's positions, None where one is absent or not written.
        dtype: deployment dtype of floating-point tensors, as in `load_onnx`; None for the file's types.
        delivered: whether the first output, or a view of it, is an output of the graph.
    """

    node: Node
    inputs: tuple[Value | None, ...]
    outputs: tuple[Value | None, ...]
    dtype: str | None
    delivered: bool

    @classmethod
    def of(cls, node: Node, values: Mapping[str, Value], written: Set[str], dtype: str | None, delivered: bool) -> Site:
        """Return the site of a node in a graph with these `values`; of its outputs only the `written` ones count."""
        outputs = (values[name] if name in written else None for name in node.outputs)
        return cls(node, tuple(map(values.get, node.inputs)), tuple(outputs), dtype, delivered)

    def input(self, position: int) -> Value | None:
        """Return the value at an input position, None if absent."""
        return self.inputs[position] if position < len(self.inputs) else None

    def needed(self, position: int) -> Value:
        """Return the value at an input position, or raise ValueError if it is absent."""
        value = self.input(position)
        if value is None:
            raise ValueError(f"input {position} is missing")
        return value

    @property
    def weight(self) -> Value:
        """The filters or the right-hand matrix, at the operator's position for them; ValueError if they are absent."""
        return self.needed(self.node.operator.weight)

    @property
    def result(self) -> Value:
        """The first output that is written."""
        return next(filter(None, self.outputs))

    def contents(self, position: int) -> Array | None:
        """Return the contents of a constant input, None if absent or unknown."""
        value = self.input(position)
        return None if value is None else value.data

    def attribute(self, name: str, default: Any) -> Any:
        """Return an attribute of the node as ONNX's helper reads it: text is bytes."""
        return self.node.attributes.get(name, default)
