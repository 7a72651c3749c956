"""Lowering of straight-line code to ops over buffers: views disappear, broadcasts and casts go into their readers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.stablehlo.stablehlo_operators import (
    MIRRORS,
    VIEWS,
    gemm,
    is_elementwise,
    is_move,
    operator,
    vector_ops,
)
from memplace_env.program.frontends.stablehlo.stablehlo_windows import in_onnx_order
from memplace_env.program.frontends.stablehlo.tracer import Trace, TraceNode
from memplace_env.program.lowering.buffer_ops import Buffer, Op, OpGraph
from memplace_env.program.lowering.geometry import geometry_columns
from memplace_env.program.lowering.graph_values import FLOAT_BITS, Value, deployed_bits
from memplace_env.program.lowering.node_graph import ErrorsOfRules, Node, Site
from memplace_env.program.model_file import MAX_WORK

_VIEWS_OF_SAME_SIZE: Final = frozenset(
    {"broadcast_in_dim", "slice", "dynamic_slice", "concatenate", "reduce", "bitcast_convert"}
)
"""Operations that are views if they keep the number of elements."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Buffers that a value is read from.

    Attributes:
        reads: elements read of each buffer.
        buffer: the buffer that is the value, None if readers compute the value themselves or it is constant.
        widened: names of the copies of other types that readers compute on the way.
        aligned: whether each element is that of the buffer at the same index.
    """

    reads: Mapping[str, int] = field(default_factory=dict)
    buffer: str | None = None
    widened: tuple[str, ...] = ()
    aligned: bool = True


def lower(
    trace: Trace, dtype: str | None, weights: Set[str], aliases: Mapping[int, str], dissolve: bool
) -> tuple[OpGraph, Mapping[str, InPlace]]:
    """Return the ops of a trace with their buffers, and by name of an op the operands in whose place it can work.

    Args:
        trace: straight-line code.
        dtype: the deployment dtype of all floating-point tensors, None to keep the module's.
        weights: names of the arguments that are weights.
        aliases: by number of an output, the argument whose place it takes.
        dissolve: whether readers compute slices and widened copies themselves, as they always do with broadcasts.

    Raises:
        WorkloadError: an operation has no row, or contradicts itself.
    """
    return _Lowering(trace, dtype, weights, dissolve).run(aliases)


class _Lowering:
    def __init__(self, trace: Trace, dtype: str | None, weights: Set[str], dissolve: bool) -> None:
        self._trace = trace
        self._values = dict(trace.values)
        self._dtype = dtype
        self._weights = weights
        self._dissolve = dissolve
        self._buffers: dict[str, Buffer] = {}
        self._sources: dict[str, _Source] = {}
        self._outputs = set(trace.outputs)
        self._counted: set[str] = set()
        self._in_place: dict[str, InPlace] = {}

    def run(self, aliases: Mapping[int, str]) -> tuple[OpGraph, Mapping[str, InPlace]]:
        for name in (*self._trace.arguments, *self._trace.literals):
            self._own(name)
        ops = []
        for node in self._trace.nodes:
            with ErrorsOfRules(f"Attributes and operands of a {node.name}"):
                source = self._without_op(node)
                if source is None:
                    ops.append(self._op(node))
                else:
                    self._sources[node.outputs[0]] = source
        written = {name for op in ops for name in op.outputs}
        outputs: set[str] = set()
        alias_of: dict[str, str] = {}
        for number, name in enumerate(self._trace.outputs):
            source = self._source(name)
            root, argument = source.buffer, aliases.get(number, "")
            if root is None or root not in written:
                continue
            if root in outputs:
                ops.append(self._copy(name))
                (root,) = ops[-1].outputs
            outputs.add(root)
            fits = argument in self._buffers and argument not in alias_of.values() and source.aligned
            if fits and self._buffers[root].bytes == self._buffers[argument].bytes:
                alias_of[root] = argument
        return OpGraph(tuple(ops), self._buffers, frozenset(outputs), alias_of), self._in_place

    def _copy(self, name: str) -> Op:
        """Return the op that copies a result to a buffer of its own, as another result has the same data."""
        copy = name if name not in self._buffers else f"{name}/copy_{len(self._buffers)}"
        self._values[copy] = self._value(name)
        return self._op(TraceNode("copy", (name,), (copy,), {}))

    def _own(self, name: str) -> None:
        """Enter a value that is a buffer of its own."""
        value = self._value(name)
        if not value.elements:
            self._sources[name] = _Source()
            return
        bits = deployed_bits(value.element_type, self._dtype)
        assert bits is not None  # the reader refuses types without a size
        constant = name in self._weights or name in self._trace.literals
        self._buffers[name] = Buffer(value.elements, value.element_type, bits, constant)
        self._sources[name] = _Source({name: value.elements}, name)

    def _value(self, name: str) -> Value:
        return self._values[name]

    def _source(self, name: str) -> _Source:
        return self._sources.get(name, _Source())

    def _without_op(self, node: TraceNode) -> _Source | None:
        """Return the source of the result if the node is no op, else None."""
        if len(node.outputs) != 1 or not node.inputs:
            return None
        value, operand = self._value(node.outputs[0]), self._value(node.inputs[0])
        source, same = self._source(node.inputs[0]), operand.elements == value.elements
        # A result of the module must exist as a buffer, so its readers cannot compute it.
        delivered = node.outputs[0] in self._outputs
        if delivered and source.buffer is None:
            return None
        if node.name in VIEWS or (same and self._is_view(node)):
            order = node.attributes.get("broadcast_dimensions", ())
            mirrored = node.name in MIRRORS or list(order) != sorted(order)
            return replace(source, aligned=source.aligned and not mirrored)
        if delivered:
            return None
        if node.name == "broadcast_in_dim":
            return replace(source, buffer=None, aligned=False)
        if not self._dissolve:
            return None
        if node.name in ("slice", "dynamic_slice"):
            share = value.elements / max(1, operand.elements)
            reads = {name: max(1, math.ceil(elements * share)) for name, elements in source.reads.items()}
            return _Source(reads, None, source.widened, False)
        if node.name == "convert" and self._bits(operand) < self._bits(value):
            return _Source(source.reads, None, (*source.widened, node.outputs[0]), source.aligned)
        return None

    def _is_view(self, node: TraceNode) -> bool:
        """Return whether a node that keeps the number of elements is a view."""
        if node.name == "pad":
            return not any(any(node.attributes.get(f"edge_padding_{side}", ())) for side in ("low", "high"))
        if node.name != "convert":
            return node.name in _VIEWS_OF_SAME_SIZE
        before, after = self._value(node.inputs[0]), self._value(node.outputs[0])
        both_float = before.element_type in FLOAT_BITS and after.element_type in FLOAT_BITS
        return before.element_type == after.element_type or (both_float and self._bits(before) == self._bits(after))

    def _bits(self, value: Value) -> int:
        return deployed_bits(value.element_type, self._dtype) or 0

    def _op(self, node: TraceNode) -> Op:
        product, work = gemm(node, self._values), vector_ops(node, self._values)
        reads: dict[str, int] = {}
        for name in dict.fromkeys(node.inputs):
            source = self._source(name)
            # The operations of a widened copy count once, for its first reader.
            work += sum(self._value(copy).elements for copy in source.widened if copy not in self._counted)
            self._counted.update(source.widened)
            for buffer, elements in source.reads.items():
                reads[buffer] = min(self._buffers[buffer].elements, reads.get(buffer, 0) + elements)
        if node.name in ("gather", "dynamic_slice", "slice"):
            self._read_in_part(node, reads)
        if max(math.prod(product), work) > MAX_WORK:
            raise WorkloadError(f"A {node.name} does an absurd amount of work; check the shapes.")
        for name in node.outputs:
            self._own(name)
        row = operator(node)
        inputs = tuple(self._input(name) for name in node.inputs)
        outputs = tuple(name for name in node.outputs if name in self._buffers)
        if is_move(node):
            row = replace(row, elementwise=True)
        name = next(iter(node.outputs), "/".join((node.name, *node.inputs)))
        place = self._in_place[name] = self._works_in_place(node)
        sure = place.buffers if place.written is None else ()
        return Op(
            row, name, inputs, outputs, reads, product, work, self._geometry(node),
            aligned=frozenset((operand, result) for operand in sure for result in outputs),
        )  # fmt: skip

    def _works_in_place(self, node: TraceNode) -> InPlace:
        """Return the operands in whose place the node can write its result."""
        sources = [self._source(name) for name in node.inputs]
        if node.name in ("dynamic_update_slice", "scatter") and len(node.outputs) == 1:
            update = self._value(node.inputs[1] if node.name != "scatter" else node.inputs[-1]).elements
            candidates, written, reads_old = 1, update, bool(node.body)
        else:
            candidates, written, reads_old = len(sources) if is_elementwise(node) else 0, None, False
        size = self._value(node.outputs[0]).elements if node.outputs else 0
        in_place: set[str] = set()
        others: set[str] = set()
        for position, source in enumerate(sources):
            # Only an operand that is one whole buffer, element by element, can be overwritten while it is read.
            whole = source.aligned and len(source.reads) == 1 and sum(source.reads.values()) == size
            (in_place if position < candidates and whole else others).update(source.reads)
        return InPlace(frozenset(in_place - others), written, reads_old)

    def _input(self, name: str) -> str | None:
        """Return the buffer that an operand is read from, None if there is not exactly one."""
        source = self._source(name)
        return next(iter(source.reads)) if len(source.reads) == 1 else None

    def _read_in_part(self, node: TraceNode, reads: dict[str, int]) -> None:
        """Limit the elements read of the table at input 0 to those of the result."""
        table = self._source(node.inputs[0])
        others = {name for other in node.inputs[1:] for name in self._source(other).reads}
        for name in table.reads.keys() - others:
            reads[name] = min(reads[name], max(1, self._value(node.outputs[0]).elements))

    def _geometry(self, node: TraceNode) -> tuple[int, ...]:
        """Return the geometry of the ONNX node that does the same."""
        values = [self._value(name) for name in node.inputs]
        results = [self._value(name) for name in node.outputs[:1]]
        attributes: dict[str, Any] = {}
        if node.name == "convolution":
            given, dims = node.attributes, node.attributes["dimension_numbers"]
            rank = len(dims["input_spatial"])
            sides = (
                (values[0], "input_batch", "input_feature", "input_spatial"),
                (values[1], "kernel_output_feature", "kernel_input_feature", "kernel_spatial"),
                (results[0], "output_batch", "output_feature", "output_spatial"),
            )
            shaped = [replace(v, shape=in_onnx_order(v.shape, *(dims[name] for name in names))) for v, *names in sides]
            values, results = shaped[:2], shaped[2:]
            padding = given.get("padding", [[0, 0]] * rank)
            attributes = {
                "group": given.get("feature_group_count", 1),
                "strides": given.get("window_strides", (1,) * rank),
                "dilations": given.get("rhs_dilation", (1,) * rank),
                "pads": (*(low for low, _ in padding), *(high for _, high in padding)),
            }
        onnx = Node(operator(node), node.name, node.inputs, node.outputs, attributes)
        return geometry_columns(
            Site(onnx, tuple(values), tuple(results), self._dtype, False), node.name != "convolution"
        )


@dataclass(frozen=True, slots=True)
class InPlace:
    """Operands in whose place an op can write its result.

    Attributes:
        buffers: operands whose elements it reads only where it writes those of its result.
        written: elements that an update of a slice or a scatter writes, None for ops that write all of their result.
        reads_old: whether such an update reads the old elements.
    """

    buffers: frozenset[str]
    written: int | None = None
    reads_old: bool = False


def possible_aliases(unfused: OpGraph, fused: OpGraph, in_place: Mapping[str, InPlace]) -> OpGraph:
    """Return the fused graph with only those aliases whose op reads the argument only where it writes the output.

    Args:
        unfused: the ops before fusion.
        fused: the ops after it.
        in_place: for the ops of `unfused` by name, the operands in whose place they can work.
    """
    makers = {name: op for op in fused.ops for name in op.outputs}
    kept = {
        name: source
        for name, source in fused.alias_of.items()
        if source not in makers[name].reads or _updates(unfused, makers[name], source, in_place) is not None
    }
    return replace(fused, alias_of=kept)


def with_partial_updates(unfused: OpGraph, fused: OpGraph, in_place: Mapping[str, InPlace]) -> OpGraph:
    """Return the fused graph in which updates of an argument's slices in place read and write only the slices."""
    ops = []
    for op in fused.ops:
        for name in op.outputs:
            source = fused.alias_of.get(name)
            steps = None if source is None else _updates(unfused, op, source, in_place)
            if source is None or not steps or any(step.written is None for step in steps):
                continue
            elements = fused.buffers[name].elements
            written = min(elements, sum(step.written or 0 for step in steps))
            old = min(elements, sum(step.written or 0 for step in steps if step.reads_old))
            op = replace(op, reads={**op.reads, source: max(1, old)}, writes={**op.writes, name: max(1, written)})
        ops.append(op)
    return replace(fused, ops=tuple(ops))


def _updates(unfused: OpGraph, op: Op, source: str, in_place: Mapping[str, InPlace]) -> list[InPlace] | None:
    """Return the steps of a fused op that update a buffer, None if one of them does not work in place."""
    derived, steps = {source}, []
    for member in _members(unfused, op):
        read = derived.intersection(member.reads)
        if read:
            step = in_place[member.name]
            if not read <= step.buffers:
                return None
            steps.append(step)
            derived.update(member.outputs)
    return steps


def _members(unfused: OpGraph, op: Op) -> Iterator[Op]:
    """Return the ops that a fused op consists of, in order."""
    needed, members = set(op.outputs), []
    for member in reversed(unfused.ops):
        if needed.intersection(member.outputs):
            members.append(member)
            needed.update(name for name in member.reads if name not in op.reads)
    return reversed(members)
