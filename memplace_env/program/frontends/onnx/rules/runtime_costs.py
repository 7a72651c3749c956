"""Work of ONNX Runtime's own operators: that of the ONNX operators which one of them stands for."""

from __future__ import annotations

import math
from collections.abc import Callable

from memplace_env.program.frontends.onnx.rules.runtime_shapes import attention_sizes, elements, factors, projections
from memplace_env.program.lowering.node_graph import Gemm, Site
from memplace_env.program.lowering.rules.vector_ops import SOFTMAX

Work = Callable[[Site], int]


def per_result_and(operations: int, *further: int) -> Work:
    """Return the rule of operations per result element, and one more for each further input that is there."""

    def rule(site: Site) -> int:
        present = sum(site.input(position) is not None for position in further)
        return (operations + present) * site.result.elements

    return rule


def activated(site: Site) -> int:
    """One operation per result element for the activation in its attribute, and one for a residual at input 3."""
    return (bool(site.attribute("activation", b"")) + (site.input(3) is not None)) * site.result.elements


def scaled(site: Site) -> int:
    """One operation per result element for a factor other than 1."""
    return site.result.elements if site.attribute("alpha", 1.0) != 1.0 else 0


def rescaled(operations: int, bias: int) -> Work:
    """Return the rule of integers made floats and scaled, with a bias at a position; and of quantising input 0."""

    def rule(site: Site) -> int:
        per_result = 2 + (site.input(bias) is not None)
        return operations * site.needed(0).elements + per_result * site.result.elements

    return rule


def product(right: int) -> Callable[[Site], Gemm]:
    """Return the rule of a matrix product with the operand at a position; attributes may transpose both."""

    def rule(site: Site) -> Gemm:
        a, b = factors(site, right)
        if math.prod(b[:-2]) == 1:
            return 1, math.prod(a[:-1]), a[-1], b[-1]
        return site.result.elements // (a[-2] * b[-1]), a[-2], a[-1], b[-1]

    return rule


def packed_product(site: Site) -> Gemm:
    """One product with a matrix whose size attributes give."""
    return 1, math.prod(site.needed(0).shape[:-1]), site.attribute("K", 0), site.attribute("N", 0)


def lstm(site: Site) -> Gemm:
    """One product per step and direction: [input, state] x all gates, see `runtime_shapes.lstm`."""
    steps, batch, features = site.needed(0).shape
    directions, cells, columns = site.needed(2).shape
    return directions * steps, batch, features + cells, columns


def lstm_operations(site: Site) -> int:
    """Bias and activation of each gate, and four operations that update the state, as for ONNX's LSTM."""
    count, rows, _, columns = lstm(site)
    return 3 * count * rows * columns


def attention(site: Site) -> Gemm:
    """Query x keys and probabilities x values, see `matrix_products.attention`."""
    sizes = attention_sizes(site)
    heads = sizes.batch * sizes.heads
    if sizes.depth == sizes.value_depth:
        return 2 * heads, sizes.rows, sizes.depth, sizes.keys
    return heads, sizes.rows, sizes.depth + sizes.value_depth, sizes.keys


def attention_operations(*biases: int) -> Work:
    """Return the rule of softmax, scale and mask of each score, of adding the biases at these positions, and of turning
    queries and keys by their positions."""

    def rule(site: Site) -> int:
        sizes = attention_sizes(site)
        scores: int = sizes.batch * sizes.heads * sizes.rows * sizes.keys
        biased = any(site.input(position) is not None for position in biases)
        turned = 3 if site.attribute("do_rotary", 0) else 0
        return (SOFTMAX + 2) * scores + biased * elements(site, range(3)) + turned * elements(site, range(2))

    return rule


def projected_attention(past: int) -> Callable[[Site], Gemm]:
    """Return the rule of projections and attention as one product, of as many MACs as all of them together.

    Its columns are the features of the queries, or of all heads the largest size that divides the work of a row.
    """

    def rule(site: Site) -> Gemm:
        batch, rows, features = site.needed(0).shape
        query, key, value = projections(site)
        keys = _keys(site, past)
        work = features * (query + key + value) + keys * (query + value)
        columns = query if work % query == 0 else math.gcd(query, value)
        return 1, batch * rows, work // columns, columns

    return rule


def projected_attention_operations(past: int) -> Work:
    """Return the rule of softmax, scale and mask of each score, and of the bias of the projections at input 2."""

    def rule(site: Site) -> int:
        batch, rows, _ = site.needed(0).shape
        scores: int = batch * site.attribute("num_heads", 1) * rows * _keys(site, past)
        biased = batch * rows * sum(projections(site)) if site.input(2) is not None else 0
        return (SOFTMAX + 2) * scores + biased

    return rule


def _keys(site: Site, past: int) -> int:
    """Return the length of the keys with the cache."""
    cache = site.input(past)
    return site.needed(0).shape[1] + (0 if cache is None else cache.shape[-2])
