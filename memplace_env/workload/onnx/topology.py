"""The schedule: live nodes in topological order, ties by position in the file."""

from __future__ import annotations

import heapq
from collections.abc import Container, Iterable, Iterator, Sequence

from onnx import AttributeProto, GraphProto, NodeProto

from memplace_env.errors import WorkloadError


def describe(node: NodeProto) -> str:
    """A node as messages call it."""
    name = node.name or next(filter(None, node.output), "")
    return f"node {name!r} ({node.op_type})"


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """Graphs that a control-flow node carries."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def reads(node: NodeProto) -> set[str]:
    """Names of all values that a node reads, those that its subgraphs capture included."""
    names = set(filter(None, node.input))
    for graph in subgraphs(node):
        names |= captured(graph)
    return names


def defined(graph: GraphProto) -> set[str]:
    """Names that a graph itself gives a meaning."""
    names = {value.name for value in graph.input}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(output for node in graph.node for output in node.output)
    return names


def captured(graph: GraphProto) -> set[str]:
    """Names that a subgraph takes from the graphs around it."""
    used = {value.name for value in graph.output}
    for node in graph.node:
        used |= reads(node)
    return used - defined(graph)


def schedule(nodes: Sequence[NodeProto], outputs: Iterable[str], given: Container[str]) -> list[NodeProto]:
    """The nodes that the outputs need, each after those whose results it reads; ties by position.

    Args:
        nodes: in file order.
        outputs: names of the values wanted.
        given: names that need no node: inputs, initialisers, values of surrounding graphs.

    Raises:
        WorkloadError: a value that nothing makes or that two nodes make, or a cycle.
    """
    producer = _producers(nodes, given)
    wanted = _needed(nodes, outputs, given, producer)
    waiting: dict[int, int] = {}
    readers: dict[int, list[int]] = {index: [] for index in wanted}
    for index, sources in wanted.items():
        waiting[index] = len(sources)
        for source in sources:
            readers[source].append(index)
    ready = [index for index in sorted(wanted) if not waiting[index]]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(nodes[index])
        for reader in readers[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(wanted):
        stuck = {index: sources for index, sources in wanted.items() if waiting[index]}
        raise WorkloadError(f"The graph has a cycle through {describe(nodes[_on_cycle(stuck)])}; the file is damaged.")
    return order


def _producers(nodes: Sequence[NodeProto], given: Container[str]) -> dict[str, int]:
    producer: dict[str, int] = {}
    for index, node in enumerate(nodes):
        for name in filter(None, node.output):
            if name in producer or name in given:
                raise WorkloadError(f"The value {name!r} is made twice, the second time by {describe(node)}.")
            producer[name] = index
    return producer


def _needed(
    nodes: Sequence[NodeProto], outputs: Iterable[str], given: Container[str], producer: dict[str, int]
) -> dict[int, set[int]]:
    """For each live node, the nodes that it waits for."""
    stack = []
    for name in outputs:
        if name in producer:
            stack.append(producer[name])
        elif name not in given:
            raise WorkloadError(f"The graph's output {name!r} is made by no node; the file is damaged.")
    wanted: dict[int, set[int]] = {}
    while stack:
        index = stack.pop()
        if index in wanted:
            continue
        names = reads(nodes[index])
        for name in names:
            if name not in producer and name not in given:
                raise WorkloadError(f"In the graph, {describe(nodes[index])} reads {name!r}, which nothing makes.")
        wanted[index] = {producer[name] for name in names if name in producer}
        stack.extend(wanted[index])
    return wanted


def _on_cycle(stuck: dict[int, set[int]]) -> int:
    """A node on a cycle: walk backwards among the nodes that never became ready until one comes again."""
    seen: set[int] = set()
    index = min(stuck)
    while index not in seen:
        seen.add(index)
        index = min(source for source in stuck[index] if source in stuck)
    return index
