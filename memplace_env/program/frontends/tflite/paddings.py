"""Folding of PAD operators into the convolutions that read them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from memplace_env.program.frontends.lowered.node_graph import Node, NodeGraph


def fold_paddings(graph: NodeGraph) -> NodeGraph:
    """Fold each PAD of height and width into the convolution that alone reads its result and has no padding itself."""
    reads = Counter(name for node in graph.nodes for name in node.inputs)
    reads.update(graph.outputs)
    pads = {node.outputs[0]: node for node in graph.nodes if _of_images(node) and reads[node.outputs[0]] == 1}
    return replace(graph, nodes=tuple(_folded(node, pads) for node in graph.nodes))


def _of_images(node: Node) -> bool:
    """Return whether a node pads zeros, and only to height and width."""
    zeros = node.attributes.get("zeros", ())
    return len(zeros) == 4 and not any((*zeros[0], *zeros[3])) and min(min(row) for row in zeros) >= 0


def _folded(node: Node, pads: dict[str, Node]) -> Node:
    pad = pads.get(node.inputs[0]) if node.inputs else None
    if pad is None or node.operator.name != "Conv" or "auto_pad" in node.attributes:
        return node
    (top, bottom), (left, right) = pad.attributes["zeros"][1:3]
    attributes = {**node.attributes, "pads": (top, left, bottom, right)}
    return replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)
