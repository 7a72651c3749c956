"""Views: nodes that only read a buffer in another way, so they make no tensor and cost nothing.

A rule returns the position of the input whose buffer the node's result is, None if the result is a tensor of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from memplace_env.program.lowering.graph_values import FLOAT_BITS, INTEGER_BITS, Array, as_bool, deployed_bits
from memplace_env.program.lowering.node_graph import Site


def always(site: Site) -> int | None:
    """Always a view: the operator never touches an element."""
    return 0


def if_same_size(site: Site) -> int | None:
    """A view if the result has as many elements as the operand."""
    return 0 if site.needed(0).elements == site.result.elements else None


def if_not_training(site: Site) -> int | None:
    """A view at inference, for Dropout."""
    training = site.input(2) is not None and as_bool(site.contents(2)) is not False
    return None if training else 0


def if_same_type(site: Site) -> int | None:
    """A view if class and deployed width of the type stay the same, for casts; a bool is a class of its own."""
    before, after = site.needed(0).element_type, site.result.element_type
    same_class = any(before in types and after in types for types in (FLOAT_BITS, INTEGER_BITS))
    same_width = deployed_bits(before, site.dtype) == deployed_bits(after, site.dtype)
    return 0 if before == after or (same_class and same_width) else None


def unless_delivered(site: Site) -> int | None:
    """A view unless it is a graph output, for dequantisation: only graph outputs exist in floats."""
    return None if site.delivered and not site.result.constant else 0


def if_order_stays(site: Site) -> int | None:
    """A view if it only moves dims of size 1, for transpositions."""
    shape = site.needed(0).shape
    kept = [axis for axis in transposed_order(site) if shape[axis] != 1]
    return 0 if kept == sorted(kept) else None


def transposed_order(site: Site) -> Sequence[int]:
    """Return the axes of a transposition's operand in the order of its result, reversed without the attribute."""
    order: Sequence[int] = site.attribute("perm", range(len(site.needed(0).shape) - 1, -1, -1))
    return order


def if_all_forwards(site: Site) -> int | None:
    """A view if it takes every element in order, for slices."""
    steps = site.contents(4)
    forwards = site.input(4) is None or (steps is not None and bool((steps > 0).all()))
    return if_same_size(site) if forwards else None


def if_no_padding(site: Site) -> int | None:
    """A view if all widths are known to be 0, for paddings."""
    pads: Array | list[int] | None = site.contents(1)
    if pads is None:
        pads = site.attribute("pads", site.attribute("paddings", None))
    return 0 if pads is not None and not any(pads) else None


def of_only_filled_input(site: Site) -> int | None:
    """A view of the one input that has elements, for concatenations."""
    filled = [position for position, value in enumerate(site.inputs) if value is not None and value.elements]
    return filled[0] if len(filled) == 1 else None


def of_only_input(site: Site) -> int | None:
    """A view if there is one operand, for operators of any number of them."""
    return 0 if len(site.inputs) == 1 else None
