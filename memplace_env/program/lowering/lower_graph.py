"""Lowering of a graph to ops over buffers: views and constant arithmetic disappear, the rest gets its cost."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.lowering.buffer_ops import Buffer, Op, OpGraph
from memplace_env.program.lowering.geometry import geometry_columns
from memplace_env.program.lowering.graph_values import Value, deployed_bits
from memplace_env.program.lowering.independence import (
    Axes,
    NamedView,
    Strides,
    aligned,
    independent,
    reshaped,
    row_major,
    transposed,
)
from memplace_env.program.lowering.node_graph import ErrorsOfRules, Gemm, Node, NodeGraph, Operator, Site
from memplace_env.program.lowering.rules import vector_ops
from memplace_env.program.lowering.rules.independent_axes import NOTHING, moved
from memplace_env.program.lowering.rules.matrix_products import NO_GEMM
from memplace_env.program.model_file import MAX_WORK, stem

_COPY: Final = Operator("Identity", vector_ops=vector_ops.nothing, axes=moved)
"""A copy of a graph output."""


def lower(graph: NodeGraph, dtype: str | None, aliases: Mapping[str, str] | None = None) -> OpGraph:
    """Return the ops of a graph and the buffers they use.

    Args:
        graph: a graph with all shapes known.
        dtype: the deployment dtype of all floating-point tensors, None to keep the file's.
        aliases: the graph inputs, by name, in whose place outputs, by name, are written, as `places` returns them.

    Raises:
        WorkloadError: an operator has no rule, or its attributes do not fit its operands.
    """
    return _Lowering(graph, dtype).run(aliases or {})


def work_of(node: Node, values: Mapping[str, Value]) -> int:
    """Return the sum of a node's multiply-accumulates and element operations, to compare branches."""
    site = Site.of(node, values, {name for name in node.outputs if name in values}, None, False)
    if not any(site.outputs) or site.result.constant:
        return 0
    with _blaming(node):
        gemm = NO_GEMM if node.operator.product is None else node.operator.product(site)
        return math.prod(gemm) + (0 if node.operator.vector_ops is None else node.operator.vector_ops(site))


class _Lowering:
    def __init__(self, graph: NodeGraph, dtype: str | None) -> None:
        self._values = dict(graph.values)
        self._graph = replace(graph, values=self._values)
        self._dtype = dtype
        self._source: dict[str, str] = {}
        self._strides: dict[str, Strides | None] = {}
        self._buffers: dict[str, Buffer] = {}
        self._updates: dict[tuple[str, str], Op] = {}

    def run(self, aliases: Mapping[str, str]) -> OpGraph:
        ops: list[Op] = []
        for site, source in self._live():
            node = site.node
            if source is not None:
                self._source[node.outputs[0]] = self._root(node.inputs[source])
                with _blaming(node):
                    self._strides[node.outputs[0]] = self._viewed(site, source)
            elif not node.outputs or not site.result.constant:
                ops.append(self._op(site))
        roots = {name: self._root(name) for name in self._graph.outputs}
        written = {name for op in ops for name in op.outputs}
        makers = {name: node.name for node in self._graph.nodes for name in node.outputs}
        outputs: set[str] = set()
        alias_of: dict[str, str] = {}
        for name in self._graph.outputs:
            copied = roots[name] in outputs
            if copied:
                ops.append(self._copy(name, makers[name]))
                outputs.update(ops[-1].outputs)
            outputs.update({roots[name]} & written)
            if name in aliases:
                alias_of[ops[-1].outputs[0] if copied else roots[name]] = aliases[name]
        in_part = {pair[0]: op for pair, op in self._updates.items() if pair in alias_of.items()}
        ops = [in_part.get(next(iter(op.outputs), ""), op) for op in ops]
        return OpGraph(tuple(ops), self._buffers, frozenset(outputs), alias_of)

    def _copy(self, name: str, maker: str) -> Op:
        """Return the op that copies a graph output to a buffer of its own, as another output has the same data.

        If it is a view, the op covers the node that makes it.
        """
        is_view = name not in self._buffers
        copy = name if is_view else f"{stem(name)}/copy_{len(self._buffers)}"
        self._values[copy] = self._values[name]
        node = Node(_COPY, maker if is_view else copy, (name,), (copy,), {})
        op = self._op(Site.of(node, self._values, {copy}, self._dtype, True))
        return op if is_view else replace(op, nodes=())

    def _live(self) -> Iterator[tuple[Site, int | None]]:
        """Return the nodes that graph outputs depend on, in order, with the outputs that are written and not empty.

        Each comes with the position of the input whose buffer its result is a view of, None for a tensor of its own.
        """
        # Backwards: `needed` are names that a graph output depends on, `delivered` graph outputs and what they view.
        needed, delivered = set(self._graph.outputs), set(self._graph.outputs)
        live, values = [], self._graph.values
        for node in reversed(self._graph.nodes):
            filled = [name for name in node.outputs if name in values and values[name].elements]
            if node.outputs and not needed.intersection(filled):
                continue
            always = node.outputs[: node.operator.written]
            written = {name for name in filled if name in needed or name in always}
            site = Site.of(node, values, written, self._dtype, not delivered.isdisjoint(node.outputs[:1]))
            with _blaming(node):
                source = _view_source(site)
            needed.update(node.captured, node.inputs if source is None else (node.inputs[source],))
            if source is not None and site.delivered:
                delivered.add(node.inputs[source])
            live.append((site, source))
        return reversed(live)

    def _root(self, name: str) -> str:
        return self._source.get(name, name)

    def _op(self, site: Site) -> Op:
        node, operator = site.node, site.node.operator
        if not operator.works:
            raise WorkloadError(
                f"No cost is known for the operator {operator.name!r} of domain 'ai.onnx' in node {node.name!r}; "
                "export the model without it."
            )
        with _blaming(node):
            gemm = NO_GEMM if operator.product is None else operator.product(site)
            element_ops = 0 if operator.vector_ops is None else operator.vector_ops(site)
            geometry = geometry_columns(site, self._graph.channels_last)
            axes = NOTHING if operator.axes is None else operator.axes(site, self._graph.channels_last)
        _check_work(node, gemm, element_ops, geometry)
        inputs = tuple(self._operand(name, position, operator) for position, name in enumerate(node.inputs))
        outputs = tuple(name for name, value in zip(node.outputs, site.outputs, strict=True) if value is not None)
        for name in filter(None, (*inputs, *outputs)):
            if name not in self._buffers:
                self._buffers[name] = self._buffer(self._graph.values[name])
        reads = {name: self._buffers[name].elements for name in inputs if name is not None}
        # Of a gathered table only the rows in the result are read, unless the table is another operand too.
        for table in (inputs[position] for position in operator.gathers if position < len(inputs)):
            if table is not None and inputs.count(table) == 1:
                reads[table] = min(reads[table], site.result.elements)
        operands = self._views(inputs, node.inputs, site.inputs, axes.inputs)
        results = self._views(node.outputs, node.outputs, site.outputs, axes.outputs)
        # Of a row-wise operator only input 0 is read as the result is written.
        names = inputs if operator.elementwise else inputs[: operator.rowwise]
        pairs = ((name, result) for name in names if name is not None for result in results)
        op = Op(
            operator, node.name, inputs, outputs, reads, gemm, element_ops, geometry, nodes=node.covers or (node.name,),
            independent={buffer: independent(views) for buffer, views in (operands | results).items()},
            aligned=frozenset(pair for pair in pairs if aligned(operands[pair[0]], results[pair[1]], operator.rowwise)),
        )  # fmt: skip
        if operator.updates is not None:
            self._note_update(site, op, site.needed(operator.updates))
        return op

    def _note_update(self, site: Site, op: Op, new: Value) -> None:
        """Note what an op moves that writes elements over some of input 0, if that has the result's order."""
        data, value, result = op.inputs[0], site.needed(0), site.node.outputs[0]
        in_order = self._strides_of(site.node.inputs[0], value) == row_major(value.shape)
        if data is not None and op.inputs.count(data) == 1 and in_order:
            written = max(1, min(value.elements, new.elements))
            read = written if site.attribute("reduction", b"none") != b"none" else 1
            self._updates[result, data] = replace(op, reads={**op.reads, data: read}, writes={result: written})

    def _operand(self, name: str, position: int, operator: Operator) -> str | None:
        """Return the buffer at an input position, None if it takes no memory."""
        if not name:
            return None
        value = self._graph.values[name]
        if not value.elements or (value.constant and (value.elements == 1 or position in operator.parameters)):
            return None
        return self._root(name)

    def _viewed(self, site: Site, source: int) -> Strides | None:
        """Return the strides of a node's result that is a view of the input at a position."""
        given = site.needed(source)
        strides, order = self._strides_of(site.node.inputs[source], given), site.node.operator.order
        if strides is None:
            return None
        if order is None:
            return reshaped(given.shape, strides, site.result.shape)
        return transposed(given.shape, strides, order(site), site.result.shape)

    def _strides_of(self, name: str, value: Value) -> Strides | None:
        return self._strides[name] if name in self._strides else row_major(value.shape)

    def _views(
        self,
        buffers: Sequence[str | None],
        names: Sequence[str],
        values: Sequence[Value | None],
        axes: Sequence[Axes],
    ) -> dict[str, list[NamedView]]:
        """Return the views of each buffer, with the names of the axes at the positions where it stands."""
        views: dict[str, list[NamedView]] = {}
        missing: list[Axes] = [()] * (len(values) - len(axes))
        for buffer, name, value, named in zip(buffers, names, values, [*axes, *missing], strict=True):
            if buffer and value:
                views.setdefault(buffer, []).append(NamedView(value.shape, self._strides_of(name, value), named))
        return views

    def _buffer(self, value: Value) -> Buffer:
        bits = deployed_bits(value.element_type, self._dtype)
        assert bits is not None  # checked_value refuses types without a size
        return Buffer(value.elements, value.element_type, bits, value.constant)


def _view_source(site: Site) -> int | None:
    """Return the position of the input that the only used output is a view of, None for a tensor of its own."""
    operator = site.node.operator
    if operator.view_of_constants and site.result.constant:
        return 0
    if operator.view is None:
        return None
    first, *others = site.outputs
    if first is None or any(value is not None for value in others):
        return None
    return operator.view(site)


def _blaming(node: Node) -> ErrorsOfRules:
    return ErrorsOfRules(f"Attributes and operands of node {node.name!r} ({node.operator.name})")


def _check_work(node: Node, gemm: Gemm, vector_ops: int, geometry: tuple[int, ...]) -> None:
    largest = max(math.prod(gemm), vector_ops, *geometry)
    smallest = min(*gemm, vector_ops, *geometry)
    if largest > MAX_WORK or smallest < -MAX_WORK or min(*gemm, vector_ops) < 0:
        raise WorkloadError(f"Node {node.name!r} ({node.operator.name}) does an absurd amount of work; check the dims.")
