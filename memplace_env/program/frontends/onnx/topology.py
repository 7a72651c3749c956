"""Execution order of an ONNX graph: its live nodes in topological order, ties by position in the file."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Sequence

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from memplace_env._lib.errors import WorkloadError


def describe(node: NodeProto) -> str:
    """Return name and type of a node, for messages."""
    name = node.name or next(filter(None, node.output), "")
    return f"node {name!r} ({node.op_type})"


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the graphs in a control-flow node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield the nodes and those in their subgraphs."""
    for node in nodes:
        yield node
        for graph in subgraphs(node):
            yield from all_nodes(graph.node)


def reads(node: NodeProto) -> set[str]:
    """Return the names of all values that a node reads, including those that its subgraphs capture."""
    names = set(filter(None, node.input))
    for graph in subgraphs(node):
        names |= captured(graph)
    return names


def defined(graph: GraphProto) -> set[str]:
    """Return the names that a graph itself defines."""
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(output for node in graph.node for output in node.output)
    return names


def captured(graph: GraphProto) -> set[str]:
    """Return the names that a subgraph uses from the graphs around it."""
    used = {value.name for value in graph.output}
    for node in graph.node:
        used |= reads(node)
    return used - defined(graph)


def schedule(nodes: Sequence[NodeProto], outputs: Iterable[str], given: Container[str]) -> list[NodeProto]:
    """Return the nodes that the outputs depend on, each after those whose results it reads; ties by position.

    Args:
        nodes: in file order.
        outputs: names of values.
        given: names of values without a node: inputs, initialisers, values of surrounding graphs.

    Raises:
        WorkloadError: a value has no node or two, or there is a cycle.
    """
    producer = _producers(nodes, given)
    live = {index: sources for index, (_, sources) in _live(nodes, outputs, given, producer).items()}
    readers: dict[int, list[int]] = {index: [] for index in live}
    for index, sources in live.items():
        for source in sources:
            readers[source].append(index)
    # Kahn's algorithm: `waiting` counts the sources of a node that are not in `order` yet.
    waiting = {index: len(sources) for index, sources in live.items()}
    ready = [index for index in sorted(live) if not waiting[index]]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for reader in readers[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(live):
        stuck = {index: sources for index, sources in live.items() if waiting[index]}
        raise WorkloadError(f"The graph has a cycle through {describe(nodes[_on_cycle(stuck)])}; the file is damaged.")
    return order


def live_inputs(model: ModelProto) -> set[str]:
    """Return the names of the graph inputs and initialisers that the outputs depend on, dead nodes ignored."""
    graph = model.graph
    given = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    outputs = [value.name for value in graph.output]
    live = _live(graph.node, outputs, given, _producers(graph.node, given))
    return given & set(outputs).union(*(names for names, _ in live.values()))


def _producers(nodes: Sequence[NodeProto], given: Container[str]) -> dict[str, int]:
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in producer or name in given:
                raise WorkloadError(f"The value {name!r} is made twice, the second time by {describe(node)}.")
            producer[name] = index
    return producer


def _live(
    nodes: Sequence[NodeProto], outputs: Iterable[str], given: Container[str], producer: dict[str, int]
) -> dict[int, tuple[set[str], set[int]]]:
    """Return for each live node the names of the values that it reads, and the nodes that make some of them."""
    stack = []
    for name in outputs:
        if name in producer:
            stack.append(producer[name])
        elif name not in given:
            raise WorkloadError(f"The graph's output {name!r} is made by no node; the file is damaged.")
    live: dict[int, tuple[set[str], set[int]]] = {}
    while stack:
        index = stack.pop()
        if index in live:
            continue
        names = reads(nodes[index])
        for name in names:
            if name not in producer and name not in given:
                raise WorkloadError(f"In the graph, {describe(nodes[index])} reads {name!r}, which nothing makes.")
        sources = {producer[name] for name in names if name in producer}
        live[index] = names, sources
        stack.extend(sources)
    return live


def _on_cycle(stuck: dict[int, set[int]]) -> int:
    """Return a node on a cycle, by walking backwards among nodes that never became ready until one comes again."""
    seen: set[int] = set()
    index = min(stuck)
    while index not in seen:
        seen.add(index)
        index = min(source for source in stuck[index] if source in stuck)
    return index
