"""Fusion "epilogue", and "chain" without products: element-wise ops run with what makes their operands."""

from __future__ import annotations

from memplace_env.workload.lowered.fusion.groups import Group, Links, regrouped
from memplace_env.workload.lowered.ops import OpGraph


def fuse_elementwise(graph: OpGraph, into_products: bool = True) -> OpGraph:
    """Element-wise ops merged with each other and with the one matrix product among what makes their operands.

    Args:
        graph: ops that may be fused already.
        into_products: false to leave matrix products alone.
    """
    links = Links(graph)
    groups: dict[int, Group] = {}
    for index, op in enumerate(graph.ops):
        groups[index] = Group([index], index)
        if op.operator.elementwise and len(op.outputs) == 1:
            _absorb_producers(graph, links, groups, index, into_products)
    return regrouped(graph, (group for group in groups.values() if len(group.members) > 1))


def _absorb_producers(graph: OpGraph, links: Links, groups: dict[int, Group], index: int, into_products: bool) -> None:
    """Merges into the group of an element-wise op, the latest first, every group that it alone reads.

    `groups` maps the last member of each group, which makes its only result, to the group.
    """
    group, elements = groups[index], graph.buffers[graph.ops[index].outputs[0]].elements
    grew = True
    while grew:
        grew = False
        for producer, name in _operands(graph, links, group):
            made = groups[producer]
            operator = graph.ops[made.main].operator
            closed = not into_products or graph.ops[group.main].operator.epilogue_head
            if (
                (operator.elementwise or (operator.epilogue_head and not closed))
                and graph.ops[producer].outputs == (name,)
                and name not in graph.outputs
                and graph.buffers[name].elements == elements
                and links.readers[name] <= set(group.members)
            ):
                del groups[producer]
                group.members.extend(made.members)
                group.main = made.main if operator.epilogue_head else group.main
                grew = True
                break
    if graph.ops[group.main].operator.elementwise:
        group.main = min(group.members)


def _operands(graph: OpGraph, links: Links, group: Group) -> list[tuple[int, str]]:
    """Buffers that come into a group from other ops, with their producers, the latest first."""
    inside = set(group.members)
    names = {name for member in group.members for name in graph.ops[member].reads}
    made = ((links.producer[name], name) for name in names if name in links.producer)
    return sorted(((producer, name) for producer, name in made if producer not in inside), reverse=True)
