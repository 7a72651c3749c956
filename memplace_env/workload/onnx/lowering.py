"""From the ONNX graph to ops over buffers: views and constant arithmetic disappear, the rest gets its cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from memplace_env.errors import WorkloadError
from memplace_env.workload.onnx.geometry import geometry
from memplace_env.workload.onnx.graph import FLOAT_BITS, Graph, Node, Site, Value, element_bits
from memplace_env.workload.onnx.operators import OP_RULES, Cost, OpRule
from memplace_env.workload.onnx.ops import Buffer, Op, OpGraph
from memplace_env.workload.onnx.rules.views import constant_view_source, view_source
from memplace_env.workload.program import FLOAT_BYTES

MAX_WORK: Final = 2**60
"""More work than this in one op is a mistake in the dims, and would overflow int64 when added up."""


def lower(graph: Graph, dtype: str | None) -> OpGraph:
    """The ops of a graph and the buffers they use.

    Args:
        graph: from `shapes.infer`.
        dtype: the deployment dtype of all floating-point tensors, None to keep the file's.

    Raises:
        WorkloadError: an operator without a rule, or one whose attributes do not fit its operands.
    """
    return _Lowering(graph, dtype).run()


class _Lowering:
    def __init__(self, graph: Graph, dtype: str | None) -> None:
        self._graph = graph
        self._dtype = dtype
        self._source: dict[str, str] = {}
        self._buffers: dict[str, Buffer] = {}

    def run(self) -> OpGraph:
        ops = []
        for node, used in _live(self._graph):
            site = Site.of(node, self._graph.values, used)
            source = self._view_source(site)
            if source is not None:
                self._source[node.outputs[0]] = self._root(node.inputs[source])
            elif not site.result.constant:
                ops.append(self._op(site, used))
        made = {name for op in ops for name in op.outputs}
        outputs = frozenset(self._root(name) for name in self._graph.outputs) & made
        return OpGraph(tuple(ops), self._buffers, outputs)

    def _root(self, name: str) -> str:
        return self._source.get(name, name)

    def _view_source(self, site: Site) -> int | None:
        with _blaming(site.node):
            return (constant_view_source if site.result.constant else view_source)(site, self._dtype)

    def _op(self, site: Site, used: set[str]) -> Op:
        node = site.node
        rule = OP_RULES.get(node.op_type)
        if rule is None:
            raise WorkloadError(
                f"No cost is known for the operator {node.op_type!r} of domain 'ai.onnx' in node {node.name!r}; "
                "export the model without it."
            )
        with _blaming(node):
            cost, shape = rule.cost(site), geometry(site)
        _check_work(node, cost, shape)
        inputs = tuple(self._operand(name, position, rule) for position, name in enumerate(node.inputs))
        outputs = tuple(name for name in node.outputs if name in used)
        for name in filter(None, (*inputs, *outputs)):
            if name not in self._buffers:
                self._buffers[name] = self._buffer(self._graph.values[name])
        reads = {name: self._buffers[name].elements for name in inputs if name is not None}
        if rule.gathers and inputs[0] is not None and inputs[0] not in inputs[1:]:
            reads[inputs[0]] = min(reads[inputs[0]], site.result.elements)
        return Op(node.op_type, node.name, inputs, outputs, reads, cost.gemm, cost.vector_ops, shape, rule.elementwise)

    def _operand(self, name: str, position: int, rule: OpRule) -> str | None:
        """The buffer at an input position; None if it takes no memory."""
        if not name:
            return None
        value = self._graph.values[name]
        if not value.elements or (value.constant and (value.elements == 1 or position in rule.parameters)):
            return None
        return self._root(name)

    def _buffer(self, value: Value) -> Buffer:
        bits = element_bits(value.element_type)
        assert bits is not None  # checked_value refuses types without a size
        if self._dtype is not None and value.element_type in FLOAT_BITS:
            bits = 8 * FLOAT_BYTES[self._dtype]
        return Buffer(value.elements, value.element_type, bits, value.constant)


@contextmanager
def _blaming(node: Node) -> Iterator[None]:
    """Turns what a rule trips over in a damaged node into a WorkloadError."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise WorkloadError(
            f"Attributes and operands of node {node.name!r} ({node.op_type}) do not fit together: {error}."
        ) from error


def _live(graph: Graph) -> Iterator[tuple[Node, set[str]]]:
    """Nodes that work for a graph output, in order, each with its outputs that are used and not empty."""
    needed = set(graph.outputs)
    live = []
    for node in reversed(graph.nodes):
        used = {name for name in node.outputs if name in needed and graph.values[name].elements}
        if used:
            needed.update(node.inputs)
            live.append((node, used))
    return reversed(live)


def _check_work(node: Node, cost: Cost, geometry: tuple[int, ...]) -> None:
    largest = max(math.prod(cost.gemm), cost.vector_ops, *geometry)
    smallest = min(*cost.gemm, cost.vector_ops, *geometry)
    if largest > MAX_WORK or smallest < -MAX_WORK or min(*cost.gemm, cost.vector_ops) < 0:
        raise WorkloadError(f"Node {node.name!r} ({node.op_type}) does an absurd amount of work; check the dims.")
