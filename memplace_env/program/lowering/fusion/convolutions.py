"""Fusion of convolutions with the ops after them, for "conv" and, with fewer ops, for "activation" and "chain"."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from memplace_env.program.lowering.buffer_ops import Buffer, Op, OpGraph
from memplace_env.program.lowering.fusion.groups import Group, Links, regrouped
from memplace_env.program.lowering.node_graph import BehindConv
from memplace_env.program.program import GEOMETRY

_CHANNELS: Final = GEOMETRY.index("ofm_z")


@dataclass(frozen=True, slots=True)
class ChainRules:
    """Ops that a convolution takes in beside normalisation and scales.

    Attributes:
        gates: whether it takes in the product of its result and a function of that.
        residuals: whether it takes in one addition of another tensor.
        one_activation: whether it takes in at most one activation, that of the convolution or of the addition included;
            else any number.
    """

    gates: bool = True
    residuals: bool = True
    one_activation: bool = False


_ALL: Final = ChainRules()


def fuse_convolutions(graph: OpGraph, rules: ChainRules = _ALL) -> OpGraph:
    """Merge each convolution with the normalisation, scales, activations and one residual after it."""
    links = Links(graph)
    chains = (_ConvChain(graph, links, index, rules) for index, op in enumerate(graph.ops) if op.operator.conv_head)
    groups = [chain.grown() for chain in chains]
    return regrouped(graph, (group for group in groups if len(group.members) > 1))


class _ConvChain:
    """A group that grows forwards from one convolution, one reader of its result at a time."""

    def __init__(self, graph: OpGraph, links: Links, index: int, rules: ChainRules) -> None:
        self._graph = graph
        self._links = links
        self._conv = graph.ops[index]
        self._group = Group([index], index)
        self._result = self._conv.outputs[0]
        self._elements = graph.buffers[self._result].elements
        bias = self._conv.operator.bias
        self._has_bias = len(self._conv.inputs) > bias and self._conv.inputs[bias] is not None
        self._activated = self._conv.operator.activated
        # Scales fold into the weights only as long as the result is linear in them.
        self._linear = not self._activated
        self._residuals_left = int(rules.residuals)
        self._rules = rules

    def grown(self) -> Group:
        steps: list[Callable[[set[int]], bool]] = [self._scale, self._activate, self._add_residual]
        if self._rules.gates:
            steps.append(self._gate)
        while self._result not in self._graph.outputs:
            readers = self._links.readers[self._result]
            if not any(step(readers) for step in steps):
                break
        return self._group

    def _take(self, *indices: int) -> bool:
        self._group.members.extend(indices)
        self._result = self._graph.ops[indices[-1]].outputs[0]
        return True

    def _only_reader(self, readers: set[int]) -> tuple[int, Op] | None:
        """Return the op that alone reads the result, if its own result has the same size."""
        if len(readers) != 1:
            return None
        (index,) = readers
        op = self._graph.ops[index]
        fits = len(op.outputs) == 1 and self._graph.buffers[op.outputs[0]].elements == self._elements
        return (index, op) if fits else None

    def _scale(self, readers: set[int]) -> bool:
        """Fold a BatchNormalization, or a constant scale or shift per channel, into weights and bias."""
        reader = self._only_reader(readers)
        if not self._linear or not self._constant_filters or reader is None:
            return False
        index, op = reader
        others = [name for name in op.reads if name != self._result]
        if not (self._is_normalisation(op, others) or self._is_scale(op, others)):
            return False
        shifts = bool(op.operator.behind_conv & BehindConv.SHIFT)
        if shifts and others and not self._has_bias:
            self._has_bias = True  # the shift itself becomes the bias
        else:
            self._group.folded.update(others)
            if shifts or self._is_normalisation(op, others):
                self._add_bias()
        if op.operator.activated:
            self._linear, self._activated = False, True
        return self._take(index)

    def _is_normalisation(self, op: Op, others: list[str]) -> bool:
        normalises = bool(op.operator.behind_conv & BehindConv.NORMALISATION)
        return normalises and op.inputs[0] == self._result and self._constant(others)

    def _is_scale(self, op: Op, others: list[str]) -> bool:
        role = op.operator.behind_conv
        if not role & BehindConv.ARITHMETIC or op.inputs.count(self._result) != 1:
            return False
        if role & BehindConv.QUOTIENT and op.inputs[0] != self._result:
            return False
        per_channel = all(self._graph.buffers[name].elements == self._channels for name in others)
        return per_channel and self._constant(others)

    def _constant(self, names: Iterable[str]) -> bool:
        return all(self._graph.buffers[name].constant for name in names)

    @property
    def _filters(self) -> Buffer | None:
        """The filters, None if they are a single number, which takes no memory."""
        name = self._conv.inputs[self._conv.operator.weight]
        return None if name is None else self._graph.buffers[name]

    @property
    def _constant_filters(self) -> bool:
        return self._filters is None or self._filters.constant

    @property
    def _may_activate(self) -> bool:
        return not (self._rules.one_activation and self._activated)

    @property
    def _channels(self) -> int:
        return self._conv.geometry[_CHANNELS]

    def _add_bias(self) -> None:
        if self._has_bias:
            return
        self._has_bias = True
        like = self._filters or self._graph.buffers[self._conv.outputs[0]]
        bias = Buffer(self._channels, like.element_type, like.bits, constant=True)
        self._group.bias = (f"{self._conv.name}/folded_bias", bias)

    def _is_unary(self, op: Op, operand: str) -> bool:
        """Return whether `operand` is the only operand apart from single numbers and an activation's constants."""
        others = [name for name in op.reads if name != operand]
        role = op.operator.behind_conv
        if role & BehindConv.ARITHMETIC:
            return not others
        return bool(role & BehindConv.ACTIVATION) and op.inputs[0] == operand and self._constant(others)

    def _activate(self, readers: set[int]) -> bool:
        reader = self._only_reader(readers)
        if reader is None or not self._is_unary(reader[1], self._result) or not self._may_activate:
            return False
        self._linear, self._activated = False, True
        return self._take(reader[0])

    def _gate(self, readers: set[int]) -> bool:
        """Take in the product of the result and a function of it, as in SiLU, or hard swish or Mish as several ops."""
        if len(readers) != 2:
            return False
        first, last = sorted(readers)
        gate = self._graph.ops[last]
        path = self._unary_path(first, last)
        if not gate.operator.behind_conv & BehindConv.GATE or not path:
            return False
        if set(gate.reads) != {self._result, path[-1][1]}:
            return False
        self._linear = False
        return self._take(*(index for index, _ in path), last)

    def _unary_path(self, start: int, end: int) -> list[tuple[int, str]]:
        """Return the ops, each with its result, from op `start` up to op `end`; empty if there is no unary path."""
        path: list[tuple[int, str]] = []
        index, operand = start, self._result
        while index != end:
            op = self._graph.ops[index]
            if len(op.outputs) != 1 or not self._is_unary(op, operand) or op.outputs[0] in self._graph.outputs:
                return []
            operand = op.outputs[0]
            path.append((index, operand))
            readers = self._links.readers[operand]
            if len(readers) != 1:
                return []
            (index,) = readers
        return path

    def _add_residual(self, readers: set[int]) -> bool:
        reader = self._only_reader(readers)
        if not self._residuals_left or reader is None:
            return False
        index, op = reader
        if not op.operator.behind_conv & BehindConv.RESIDUAL or len(op.reads) != 2:
            return False
        (other,) = op.reads.keys() - {self._result}
        # The addition goes to the operand that is computed last, so that the other one is ready.
        if self._links.producer.get(other, -1) > self._links.producer[self._result]:
            return False
        if op.operator.activated and not self._may_activate:
            return False
        self._linear, self._activated = False, self._activated or op.operator.activated
        self._residuals_left -= 1
        return self._take(index)
