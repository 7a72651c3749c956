"""The pass that makes one node of nodes that every compiler knows as one op, whatever fusion joins later."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from memplace_env.program.frontends.onnx.onnx_operators import OPERATORS
from memplace_env.program.frontends.onnx.runtime_operators import RUNTIME_OPERATORS
from memplace_env.program.frontends.patterns.surroundings import Match, Surroundings
from memplace_env.program.frontends.patterns.written_out import formula
from memplace_env.program.lowering.graph_values import FLOAT_BITS
from memplace_env.program.lowering.node_graph import Node, NodeGraph, Operator
from memplace_env.program.lowering.rules import independent_axes, views
from memplace_env.program.lowering.rules.vector_ops import SOFTMAX, per_result
from memplace_env.program.model_file import stem

_LAYOUT: Final = replace(OPERATORS["Transpose"], view=views.always)

_SOFTMAX: Final = {
    (mask, scaled): replace(
        OPERATORS["Softmax"],
        name="BiasSoftmax" if mask else "Softmax",
        vector_ops=per_result(SOFTMAX + mask + scaled),
    )
    for mask in (False, True)
    for scaled in (False, True)
}
"""Softmax of scores with a mask, with a factor, and with both, named as ONNX Runtime does."""

_TO_FLOAT: Final = {
    "MatMulInteger": replace(RUNTIME_OPERATORS["MatMulIntegerToFloat"], axes=independent_axes.matmul),
    "ConvInteger": replace(
        OPERATORS["ConvInteger"],
        name="ConvIntegerToFloat",
        vector_ops=RUNTIME_OPERATORS["MatMulIntegerToFloat"].vector_ops,
        bias=6,
        conv_head=True,
    ),
}
"""Products of integers with what makes them floats, all with the inputs of MatMulIntegerToFloat."""


def with_patterns(graph: NodeGraph) -> NodeGraph:
    """Return a graph in which each pattern is one node, which covers those that it stands for.

    What is inside a pattern is no graph output, and nothing outside reads it. Transpositions beside matrix products
    become views, as a product reads and writes any layout.
    """
    around, taken = Surroundings(graph), set[int]()
    made: dict[int, tuple[Node, ...]] = {}
    rules: tuple[Callable[[Surroundings, int], Match | None], ...] = (_to_float, formula, _softmax, _layout)
    for rule in rules:
        # The last node first, so that the largest pattern of several is found.
        for at in reversed(range(len(graph.nodes))):
            match = None if at in taken else rule(around, at)
            if match is not None and taken.isdisjoint(match.nodes):
                taken |= match.nodes
                made[max(match.nodes)] = match.made
    nodes = [made.get(at, () if at in taken else (node,)) for at, node in enumerate(graph.nodes)]
    choices = {
        node: {name: with_patterns(branch) for name, branch in branches.items()}
        for node, branches in graph.choices.items()
    }
    return replace(graph, nodes=tuple(node for each in nodes for node in each), values=around.values, choices=choices)


def _softmax(around: Surroundings, last: int) -> Match | None:
    """Return a softmax with the scale and the mask of its scores, in any order, behind views and casts."""
    softmax = around.nodes[last]
    if softmax.operator.name != "Softmax" or around.result(softmax) is None:
        return None
    nodes, scores, mask, scaled, match = {last}, softmax.inputs[0], "", False, None
    while (before := around.maker(scores)) >= 0 and around.readers(scores) <= nodes:
        node = around.nodes[before]
        factor, (masked, by) = _factor(around, node), _masked(around, node)
        if node.operator.view is views.always or around.is_cast(node):
            scores = node.inputs[0]
        elif factor and not scaled:
            scores, scaled = factor, True
        elif masked and not mask:
            scores, mask = masked, by
        else:
            break
        nodes = nodes | {before}
        if mask or scaled:
            match = _one_softmax(around, nodes, scores, mask, scaled)
    return match


def _one_softmax(around: Surroundings, nodes: set[int], scores: str, mask: str, scaled: bool) -> Match:
    """Return the softmax of nodes; if scores have another shape than its result, it reads a view of them."""
    softmax = around.nodes[max(nodes)]
    view, made = scores, list[Node]()
    shape = around.values[softmax.outputs[0]].shape
    if around.values[scores].shape != shape:
        view = f"{stem(scores)}\0{stem(softmax.outputs[0])}"
        around.values[view] = replace(around.values[scores], shape=shape)
        made = [Node(OPERATORS["Reshape"], view, (scores,), (view,), {})]
    inputs = (view, mask) if mask else (view,)
    match = around.match(nodes, _SOFTMAX[bool(mask), scaled], inputs, softmax.attributes)
    return match._replace(made=(*made, *match.made))


def _factor(around: Surroundings, node: Node) -> str:
    """Return what a node multiplies by a number or divides by one, "" if it does neither."""
    if node.operator.name in ("Mul", "Div") and not node.operator.activated:
        first, second = node.inputs
        if around.number(second) is not None:
            return first
        if node.operator.name == "Mul" and around.number(first) is not None:
            return second
    return ""


def _masked(around: Surroundings, node: Node) -> tuple[str, str]:
    """Return the scores and the mask of a sum, or of a choice between scores and a number; "" if it is neither."""
    names = node.inputs
    if node.operator.name == "Where":
        names = tuple(name for name in names if around.number(name) is None)
    elif node.operator.name != "Add" or node.operator.activated:
        return "", ""
    if len(names) != 2 or any(around.number(name) is not None for name in names):
        return "", ""
    elements = around.values[node.outputs[0]].elements
    choice = names[1:] if node.operator.name == "Where" else names
    full = [name for name in choice if around.values[name].elements == elements and not around.values[name].constant]
    # Of two tensors of that size the scores come from a product, or from a factor behind it.
    for name in full:
        at = around.maker(name)
        if at >= 0 and (around.nodes[at].operator.product is not None or _factor(around, around.nodes[at])):
            full = [name]
            break
    return (full[0], next(name for name in names if name != full[0])) if full and names[0] != names[1] else ("", "")


def _to_float(around: Surroundings, first: int) -> Match | None:
    """Return a product of integers with the cast of its result, its scales and its bias."""
    product = around.nodes[first]
    result = around.result(product) if product.operator.name in _TO_FLOAT else None
    cast = None if result is None else around.reader(product.outputs[0])
    if result is None or cast is None or cast.operator.name != "Cast":
        return None
    if around.values[cast.outputs[0]].element_type not in FLOAT_BITS:
        return None
    nodes, last, scales, bias = {first, around.maker(cast.outputs[0])}, cast, list[str](), ""
    while (node := around.reader(last.outputs[0])) is not None and not bias:
        others = [name for name in node.inputs if name != last.outputs[0]]
        # A factor, or a bias that is constant, has an element for each channel, or one for all.
        channels = result.shape[1 if product.operator.name == "ConvInteger" else -1]
        if len(others) != 1 or node.operator.activated or around.values[others[0]].elements not in (1, channels):
            break
        if node.operator.name == "Mul" and len(scales) < 2:
            scales.append(others[0])
        elif node.operator.name == "Add" and scales and around.values[others[0]].constant:
            bias = others[0]
        else:
            break
        nodes, last = nodes | {around.maker(node.outputs[0])}, node
    # The scale may be the product of the operands' own two.
    pair = around.maker(scales[0]) if len(scales) == 1 else -1
    if pair >= 0 and around.nodes[pair].operator.name == "Mul" and around.reader(scales[0]) is not None:
        nodes, scales = nodes | {pair}, list(around.nodes[pair].inputs)
    if not scales:
        return None
    points = (*product.inputs[2:], "", "")[:2]
    inputs = (*product.inputs[:2], *(*scales, "")[:2], *points, bias)
    return around.match(nodes, _TO_FLOAT[product.operator.name], inputs, product.attributes)


def _layout(around: Surroundings, at: int) -> Match | None:
    """Return a transposition as a view, if only products read what it makes, or a product makes only what it reads."""
    node = around.nodes[at]
    if node.operator.name != "Transpose" or around.result(node) is None:
        return None
    if not (_only_products_read(around, node.outputs[0]) or _a_product_made(around, node.inputs[0])):
        return None
    return Match({at}, (replace(node, operator=_LAYOUT),))


def _is_product(operator: Operator) -> bool:
    return operator.epilogue_head and not operator.filters


def _only_products_read(around: Surroundings, name: str) -> bool:
    names, readers = [name], set[int]()
    for viewed in names:
        new = around.readers(viewed)
        views_of = {at for at in new if at >= 0 and around.nodes[at].operator.view is views.always}
        names += [around.nodes[at].outputs[0] for at in views_of]
        readers |= new - views_of
        if -1 in readers:
            return False
    return bool(readers) and all(_is_product(around.nodes[at].operator) for at in readers)


def _a_product_made(around: Surroundings, name: str) -> bool:
    """Return whether a product makes a value that only one node reads, maybe through views that only one node reads."""
    while (at := around.maker(name)) >= 0 and around.reader(name) is not None:
        if around.nodes[at].operator.view is not views.always:
            return _is_product(around.nodes[at].operator)
        name = around.nodes[at].inputs[0]
    return False
