"""Fusion "epilogue", and "chain" without products: element-wise ops run with what makes their operands."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from memplace_env.workload.lowered.fusion.groups import Group, Links, regrouped
from memplace_env.workload.lowered.ops import OpGraph


def fuse_elementwise(graph: OpGraph, into_products: bool = True) -> OpGraph:
    """Element-wise ops merged with each other and with the one matrix product among what makes their operands.

    Args:
        graph: ops that may be fused already.
        into_products: false to leave matrix products alone.
    """
    links = Links(graph)
    clusters: dict[int, _Cluster] = {}
    for index, op in enumerate(graph.ops):
        alone = _Cluster([index], index, index, {name: 1 for name in op.reads if name in links.producer})
        absorbs = op.operator.elementwise and len(op.outputs) == 1
        clusters[index] = _absorbed(graph, links, clusters, alone, into_products) if absorbs else alone
    found = (cluster for cluster in clusters.values() if len(cluster.members) > 1)
    return regrouped(graph, (Group(cluster.members, cluster.main) for cluster in found))


@dataclass(slots=True)
class _Cluster:
    """Ops to be run as one.

    Attributes:
        members: indices of the ops.
        first: the least of them.
        main: as in `Group`.
        inside: how many members read each buffer that comes in from other ops.
    """

    members: list[int]
    first: int
    main: int
    inside: dict[str, int]


def _absorbed(
    graph: OpGraph, links: Links, clusters: dict[int, _Cluster], cluster: _Cluster, into_products: bool
) -> _Cluster:
    """An element-wise op merged, the latest first, with every cluster that it alone reads.

    `clusters` maps the last member of each cluster, which makes its only result, to the cluster. Each candidate is
    looked at once, when all its readers are inside: what forbids it then forbids it for ever.
    """
    (index,) = cluster.members
    elements = graph.buffers[graph.ops[index].outputs[0]].elements
    ready = _complete(links, cluster)
    heapify(ready)
    while ready:
        producer = -heappop(ready)
        made = clusters.get(producer)
        if made is None or len(graph.ops[producer].outputs) != 1:
            continue
        name, operator = graph.ops[producer].outputs[0], graph.ops[made.main].operator
        closed = not into_products or graph.ops[cluster.main].operator.epilogue_head
        if (
            (operator.elementwise or (operator.epilogue_head and not closed))
            and name not in graph.outputs
            and graph.buffers[name].elements == elements
        ):
            del clusters[producer], cluster.inside[name]
            # A product has not looked at its own operands; what other clusters have seen is refused for ever.
            complete = _complete(links, made) if len(made.members) == 1 else []
            cluster, late = _joined(links, cluster, made, made.main if operator.epilogue_head else cluster.main)
            for candidate in complete + late:
                heappush(ready, candidate)
    if graph.ops[cluster.main].operator.elementwise:
        cluster.main = cluster.first
    return cluster


def _complete(links: Links, cluster: _Cluster) -> list[int]:
    """Makers, negative as for a heap, of the buffers all of whose readers are inside."""
    inside = cluster.inside.items()
    return [-links.producer[name] for name, count in inside if count == len(links.readers[name])]


def _joined(links: Links, one: _Cluster, other: _Cluster, main: int) -> tuple[_Cluster, list[int]]:
    """Both as one, and the makers of the buffers all of whose readers are only now inside, as from `_complete`."""
    small, large = sorted((one, other), key=lambda cluster: len(cluster.members) + len(cluster.inside))
    complete = []
    for name, count in small.inside.items():
        large.inside[name] = large.inside.get(name, 0) + count
        if count < large.inside[name] == len(links.readers[name]):
            complete.append(-links.producer[name])
    large.members.extend(small.members)
    large.first = min(large.first, small.first)
    large.main = main
    return large, complete
