"""Which nodes only look at a buffer in another way: they make no tensor and cost nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from memplace_env.workload.onnx.graph import FLOAT_BITS, INTEGER_BITS, Array, Site, as_bool


def view_source(site: Site, dtype: str | None) -> int | None:
    """Position of the input whose buffer a node's only used output is, None if the node makes a tensor of its own.

    Args:
        site: outputs that nothing uses are None.
        dtype: the deployment dtype, as in `load_onnx`; it decides which casts do nothing.
    """
    if site.outputs[0] is None or any(value is not None for value in site.outputs[1:]):
        return None
    if site.node.op_type in _CASTS:
        return _cast(site, dtype)
    rule = _RULES.get(site.node.op_type)
    return rule(site) if rule else None


def constant_view_source(site: Site, dtype: str | None) -> int | None:
    """As `view_source`, for a node whose inputs are all constant: a transposed weight is stored transposed."""
    return 0 if site.node.op_type == "Transpose" else view_source(site, dtype)


def _always(site: Site) -> int | None:
    return 0


def _unchanged_size(site: Site) -> int | None:
    return 0 if site.needed(0).elements == site.result.elements else None


def _dropout(site: Site) -> int | None:
    training = site.input(2) is not None and as_bool(site.known(2)) is not False
    return None if training else 0


def _cast(site: Site, dtype: str | None) -> int | None:
    """A view if the type's class and width stay the same as deployed; a bool is a class of its own."""
    before, after = site.needed(0).element_type, site.result.element_type
    if before in FLOAT_BITS and after in FLOAT_BITS:
        same = dtype is not None or FLOAT_BITS[before] == FLOAT_BITS[after]
    elif before in INTEGER_BITS and after in INTEGER_BITS:
        same = INTEGER_BITS[before] == INTEGER_BITS[after]
    else:
        same = before == after
    return 0 if same else None


def _transpose(site: Site) -> int | None:
    """A view if it only moves dims of size 1."""
    shape = site.needed(0).shape
    order = site.attribute("perm", range(len(shape) - 1, -1, -1))
    kept = [axis for axis in order if shape[axis] != 1]
    return 0 if kept == sorted(kept) else None


def _slice(site: Site) -> int | None:
    steps = site.known(4)
    forwards = site.input(4) is None or (steps is not None and bool((steps > 0).all()))
    return _unchanged_size(site) if forwards else None


def _pad(site: Site) -> int | None:
    pads: Array | list[int] | None = site.known(1)
    if pads is None:
        pads = site.attribute("pads", site.attribute("paddings", None))
    return 0 if pads is not None and not any(pads) else None


def _concat(site: Site) -> int | None:
    filled = [position for position, value in enumerate(site.inputs) if value is not None and value.elements]
    return filled[0] if len(filled) == 1 else None


def _single(site: Site) -> int | None:
    return 0 if len(site.inputs) == 1 else None


_CASTS: Final = frozenset(("Cast", "CastLike"))

_RULES: Final[Mapping[str, Callable[[Site], int | None]]] = {
    "Reshape": _always,
    "Flatten": _always,
    "Squeeze": _always,
    "Unsqueeze": _always,
    "Identity": _always,
    "DequantizeLinear": _always,  # the consumer reads the quantised tensor
    "BitCast": _always,
    "Dropout": _dropout,
    "Transpose": _transpose,
    "Expand": _unchanged_size,
    "Tile": _unchanged_size,
    "Split": _unchanged_size,
    "Slice": _slice,
    "Pad": _pad,
    "Concat": _concat,
    "Sum": _single,
    "Mean": _single,
    "Max": _single,
    "Min": _single,
}
