"""Which nodes only look at a buffer in another way: they make no tensor and cost nothing.

A rule gives the position of the input whose buffer the node's result is, None if the result is a tensor of its own.
"""

from __future__ import annotations

from memplace_env.workload.lowered.graph import Site
from memplace_env.workload.lowered.values import FLOAT_BITS, INTEGER_BITS, Array, as_bool, deployed_bits


def always(site: Site) -> int | None:
    """The operator never touches an element."""
    return 0


def if_same_size(site: Site) -> int | None:
    """A view if the result has as many elements as the operand."""
    return 0 if site.needed(0).elements == site.result.elements else None


def if_not_training(site: Site) -> int | None:
    """Dropout is a view at inference."""
    training = site.input(2) is not None and as_bool(site.contents(2)) is not False
    return None if training else 0


def if_same_type(site: Site) -> int | None:
    """A cast is a view if the type's class and width stay the same as deployed; a bool is a class of its own."""
    before, after = site.needed(0).element_type, site.result.element_type
    same_class = any(before in types and after in types for types in (FLOAT_BITS, INTEGER_BITS))
    same_width = deployed_bits(before, site.dtype) == deployed_bits(after, site.dtype)
    return 0 if before == after or (same_class and same_width) else None


def unless_delivered(site: Site) -> int | None:
    """What reads a dequantised tensor reads the quantised one; only a graph output is there in floats."""
    return None if site.delivered and not site.result.constant else 0


def if_order_stays(site: Site) -> int | None:
    """A transposition is a view if it only moves dims of size 1."""
    shape = site.needed(0).shape
    order = site.attribute("perm", range(len(shape) - 1, -1, -1))
    kept = [axis for axis in order if shape[axis] != 1]
    return 0 if kept == sorted(kept) else None


def if_all_forwards(site: Site) -> int | None:
    """A slice is a view if it takes every element, in order."""
    steps = site.contents(4)
    forwards = site.input(4) is None or (steps is not None and bool((steps > 0).all()))
    return if_same_size(site) if forwards else None


def if_no_padding(site: Site) -> int | None:
    """A padding is a view if all its widths are known to be 0."""
    pads: Array | list[int] | None = site.contents(1)
    if pads is None:
        pads = site.attribute("pads", site.attribute("paddings", None))
    return 0 if pads is not None and not any(pads) else None


def of_only_filled_input(site: Site) -> int | None:
    """A concatenation is a view of the one input that has elements."""
    filled = [position for position, value in enumerate(site.inputs) if value is not None and value.elements]
    return filled[0] if len(filled) == 1 else None


def of_only_input(site: Site) -> int | None:
    """An operator of any number of operands is a view if it has one."""
    return 0 if len(site.inputs) == 1 else None
