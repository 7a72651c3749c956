"""Matrix products of a node from the shapes around it, as a `Gemm`."""

from __future__ import annotations

import math
from typing import Final

from memplace_env.program.lowering.graph_values import Shape
from memplace_env.program.lowering.node_graph import Gemm, Site

NO_GEMM: Final[Gemm] = (0, 0, 0, 0)


def conv(site: Site) -> Gemm:
    """One product per group: result pixels x receptive field x filters. Padding counts, the bias does not."""
    weight, groups = site.weight.shape, site.attribute("group", 1)
    return groups, site.result.elements // weight[0], math.prod(weight[1:]), weight[0] // groups


def conv_transpose(site: Site) -> Gemm:
    """One product per group: input pixels x channels x result elements that each of them contributes to."""
    weight, groups = site.weight.shape, site.attribute("group", 1)
    return groups, site.needed(0).elements // weight[0], weight[0] // groups, math.prod(weight[1:])


def gemm(site: Site) -> Gemm:
    """One product of two matrices, each transposed if its attribute is set."""
    a, b = site.needed(0).shape, site.weight.shape
    rows, depth = reversed(a) if site.attribute("transA", 0) else a
    return 1, rows, depth, b[0] if site.attribute("transB", 0) else b[1]


def matmul(site: Site) -> Gemm:
    """One product per element of the broadcast batch dims; one in all if the right operand has none."""
    a, b = site.needed(0).shape, site.weight.shape
    a = a if len(a) > 1 else (1, *a)
    b = b if len(b) > 1 else (*b, 1)
    if math.prod(b[:-2]) == 1:
        return 1, math.prod(a[:-1]), a[-1], b[-1]
    return _broadcast_size(a[:-2], b[:-2]), a[-2], a[-1], b[-1]


def attention(site: Site) -> Gemm:
    """Query x keys and probabilities x values: two products per head, or one of both depths if head sizes differ."""
    scores, rows, keys, depth, value_depth = _attention_sizes(site)
    if depth == value_depth:
        return 2 * scores, rows, depth, keys
    return scores, rows, depth + value_depth, keys


def attention_scores(site: Site) -> int:
    """Return the number of attention scores, the elements of the softmax."""
    scores, rows, keys, _, _ = _attention_sizes(site)
    return scores * rows * keys


def recurrent(site: Site) -> Gemm:
    """One product per step and direction of an LSTM, GRU or RNN: [input, state] x all gates."""
    data, weight, state = site.needed(0).shape, site.weight.shape, site.needed(2).shape
    batch, steps = (data[0], data[1]) if site.attribute("layout", 0) else (data[1], data[0])
    return weight[0] * steps, batch, weight[2] + state[2], weight[1]


def einsum(site: Site) -> Gemm:
    """One contraction of two operands; zeros for equations that only move, multiply or sum elements.

    Raises:
        ValueError: there are more than two operands, or one has the same label twice.
    """
    equation = site.attribute("equation", b"").decode().replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) == 1:
        return NO_GEMM
    if len(terms) != 2:
        raise ValueError(f"einsum {equation!r} has {len(terms)} operands; at most two are supported")
    sizes: dict[str, int] = {}
    a, b = (_labels(term, site.needed(position).shape, sizes) for position, term in enumerate(terms))
    # Without an arrow the result has the labels that occur once, as in NumPy.
    dotted = "..." in (right if arrow else left)
    kept = set(right) if arrow else {label for label in left if left.count(label) == 1}
    result = {label for label in sizes if (dotted if label.startswith("...") else label in kept)}

    def extent(labels: set[str]) -> int:
        return math.prod(sizes[label] for label in labels)

    depth, rows, columns = (a | b) - result, a - b, b - a
    if not depth and not (rows and columns):
        return NO_GEMM
    return extent(a & b & result), extent(rows & result), extent(depth), extent(columns & result)


def _broadcast_size(a: Shape, b: Shape) -> int:
    """Return the number of elements of the shape that two shapes broadcast to."""
    rank = max(len(a), len(b))
    padded = ((1,) * (rank - len(shape)) + shape for shape in (a, b))
    return math.prod(y if x == 1 else x for x, y in zip(*padded, strict=True))


def _attention_sizes(site: Site) -> tuple[int, int, int, int, int]:
    """Return batch x heads, query length, key length with the cache, head size of queries and of values."""
    query, key, value = (site.needed(position).shape for position in range(3))
    past = site.input(4)
    cached = past.shape[2] if past is not None else 0
    if len(query) == 4:
        return query[0] * query[1], query[2], key[2] + cached, query[3], value[3]
    heads, kv_heads = site.attribute("q_num_heads", 1), site.attribute("kv_num_heads", 1)
    return query[0] * heads, query[1], key[1] + cached, query[2] // heads, value[2] // kv_heads


def _labels(term: str, shape: Shape, sizes: dict[str, int]) -> set[str]:
    """Return the labels of one operand and enter their `sizes`; an ellipsis is `...1`, `...2` from the right."""
    before, dots, after = term.partition("...")
    hidden = len(shape) - len(before) - len(after)
    names = [*before, *(f"...{hidden - i}" for i in range(hidden if dots else 0)), *after]
    if len(set(names)) < len(names):
        raise ValueError(f"einsum term {term!r} repeats a label, which is not supported")
    for name, size in zip(names, shape, strict=True):
        sizes[name] = max(size, sizes.get(name, 1))
    return set(names)
