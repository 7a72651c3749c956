"""Fusion of element-wise ops with the producers of their operands, for "epilogue" and, without products, "chain"."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from memplace_env.program.lowering.buffer_ops import OpGraph
from memplace_env.program.lowering.fusion.groups import Group, Links, regrouped


def fuse_elementwise(graph: OpGraph, into_products: bool = True) -> OpGraph:
    """Merge element-wise ops with each other and with the one matrix product among the producers of their operands.

    Args:
        graph: ops that may be fused already.
        into_products: whether matrix products take part.
    """
    links = Links(graph)
    clusters: dict[int, _Cluster] = {}
    for index, op in enumerate(graph.ops):
        alone = _Cluster([index], index, index, {name: 1 for name in op.reads if name in links.producer})
        absorbs = op.operator.elementwise and len(op.outputs) == 1
        clusters[index] = _absorbed(graph, links, clusters, alone, into_products) if absorbs else alone
    joined = (cluster for cluster in clusters.values() if len(cluster.members) > 1)
    return regrouped(graph, (Group(cluster.members, cluster.main) for cluster in joined))


@dataclass(slots=True)
class _Cluster:
    """Ops to be run as one.

    Attributes:
        members: indices of the ops.
        first: the least of them.
        main: as in `Group`.
        inside: number of members that read each buffer that other ops write.
    """

    members: list[int]
    first: int
    main: int
    inside: dict[str, int]


def _absorbed(
    graph: OpGraph, links: Links, clusters: dict[int, _Cluster], cluster: _Cluster, into_products: bool
) -> _Cluster:
    """Merge an element-wise op with every cluster that it alone reads, the latest first.

    `clusters` maps the last member of each cluster, which computes its only result, to the cluster. Each candidate is
    examined once, when all its readers are inside; a reason against it then remains one.
    """
    (index,) = cluster.members
    elements = graph.buffers[graph.ops[index].outputs[0]].elements
    ready = _complete(links, cluster)
    heapify(ready)
    while ready:
        producer = -heappop(ready)
        candidate = clusters.get(producer)
        if candidate is None or len(graph.ops[producer].outputs) != 1:
            continue
        name, operator = graph.ops[producer].outputs[0], graph.ops[candidate.main].operator
        # At most one product per cluster.
        closed = not into_products or graph.ops[cluster.main].operator.epilogue_head
        if (
            (operator.elementwise or (operator.epilogue_head and not closed))
            and name not in graph.outputs
            and graph.buffers[name].elements == elements
        ):
            del clusters[producer], cluster.inside[name]
            # A single op has not examined its operands, a larger cluster has refused all that it could have taken in.
            complete = _complete(links, candidate) if len(candidate.members) == 1 else []
            main = candidate.main if operator.epilogue_head else cluster.main
            cluster, late = _joined(links, cluster, candidate, main)
            for new in complete + late:
                heappush(ready, new)
    if graph.ops[cluster.main].operator.elementwise:
        cluster.main = cluster.first
    return cluster


def _complete(links: Links, cluster: _Cluster) -> list[int]:
    """Return the producers, negated for a heap, of the buffers all of whose readers are inside."""
    inside = cluster.inside.items()
    return [-links.producer[name] for name, count in inside if count == len(links.readers[name])]


def _joined(links: Links, one: _Cluster, other: _Cluster, main: int) -> tuple[_Cluster, list[int]]:
    """Return the union, and the producers of buffers all of whose readers are only now inside, as from `_complete`."""
    # The smaller into the larger: each op moves O(log n) times.
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
