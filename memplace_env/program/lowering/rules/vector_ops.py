"""Number of element operations of a node, from the shapes around it."""

from __future__ import annotations

import math
from collections.abc import Callable

from memplace_env.program.lowering.node_graph import Site
from memplace_env.program.lowering.rules import matrix_products

SOFTMAX = 5
"""Operations per element of a softmax: maximum, difference, exponential, sum, quotient."""


def nothing(site: Site) -> int:
    """No operations, for an op that only moves data."""
    return 0


def per_result(operations: int) -> Callable[[Site], int]:
    """Return the rule of a number of operations per element of the result."""
    return lambda site: operations * site.result.elements


def per_input(operations: int) -> Callable[[Site], int]:
    """Return the rule of a number of operations per element of input 0."""
    return lambda site: operations * site.needed(0).elements


def per_further_operand(site: Site) -> int:
    """One operation per result element for each operand but the first, at least one."""
    return max(1, len(site.inputs) - 1) * site.result.elements


def scattering(site: Site) -> int:
    """One operation per update that is combined with the old element, none for one that replaces it."""
    return 0 if site.attribute("reduction", b"none") == b"none" else site.needed(2).elements


def pooling(site: Site) -> int:
    """Area of the kernel per result element."""
    return int(math.prod(site.attribute("kernel_shape", ())) * site.result.elements)


def local_response(site: Site) -> int:
    """A sum of squares over neighbouring channels, then a power, a scale and a quotient."""
    return int((site.attribute("size", 1) + 3) * site.result.elements)


def resizing(site: Site) -> int:
    """One operation per source point that a result is interpolated from; the nearest point is only moved."""
    points = {b"nearest": 0, b"linear": 2, b"bilinear": 2, b"cubic": 4}[site.attribute("mode", b"nearest")]
    scaled = sum(a != b for a, b in zip(site.needed(0).shape, site.result.shape, strict=True))
    return int(points**scaled * site.result.elements) if points else 0


def region_pooling(site: Site) -> int:
    """Four interpolated points per sample; an adaptive ratio counts as one sample per bin (our choice)."""
    return int(4 * max(1, site.attribute("sampling_ratio", 0)) ** 2 * site.result.elements)


def suppression(site: Site) -> int:
    """Overlap of each score's box with each that is kept, at 8 operations (our choice); one kept if that is unknown."""
    kept = site.contents(2)
    return 8 * site.needed(1).elements * max(1, 1 if kept is None else int(kept.reshape(-1)[0]))


def deformed_sampling(site: Site) -> int:
    """Four interpolated points per element of a convolution's matrix operand."""
    return 4 * math.prod(matrix_products.conv(site)[:3])


def attention(site: Site) -> int:
    """Softmax, scale and mask of each attention score."""
    return (SOFTMAX + 2) * matrix_products.attention_scores(site)


def einsum_without_product(site: Site) -> int:
    """One operation per element of the largest operand of an einsum that is no matrix product."""
    if any(matrix_products.einsum(site)):
        return 0
    return max(value.elements for value in site.inputs if value is not None)


def recurrent(gates: int) -> Callable[[Site], int]:
    """Return the rule for bias and activation of each gate, and four operations that update the state."""

    def rule(site: Site) -> int:
        count, rows, _, columns = matrix_products.recurrent(site)
        return count * rows * columns // gates * (2 * gates + 4)

    return rule
