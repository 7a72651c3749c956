"""Results of the operators of shape arithmetic, from known operands.

Nothing here takes a size from an attribute: results have the shapes that ONNX inferred and that were checked to be
small, or are bounded by operands. A fold that cannot compute its results raises or returns None; the contents are then
merely unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from onnx import numpy_helper

from memplace_env.program.lowering.graph_values import Array, Value

Results = Sequence[Any] | None
Fold = Callable[["FoldSite"], Results]


@dataclass(frozen=True, slots=True)
class FoldSite:
    """A node of constants, the argument of the folds.

    Attributes:
        inputs: contents by position, None where one is absent.
        outputs: by position, None where one is absent or its shape is unknown.
        attributes: attributes of the node, as ONNX's helper reads them.
    """

    inputs: Sequence[Array | None]
    outputs: Sequence[Value | None]
    attributes: Mapping[str, Any]

    @property
    def operands(self) -> list[Array]:
        """The inputs that are present."""
        return [data for data in self.inputs if data is not None]

    @property
    def data(self) -> Array:
        """Input 0."""
        return self.needed(0)

    @property
    def result(self) -> Value:
        """Output 0."""
        value = self.outputs[0]
        if value is None:
            raise ValueError("its shape is not known")
        return value

    def needed(self, position: int) -> Array:
        """Return the contents of a required input."""
        data = self.inputs[position]
        if data is None:
            raise ValueError(f"input {position} is missing")
        return data

    def listing(self, position: int, attribute: str) -> list[int] | None:
        """Return integers that newer operator sets have as an input and older ones as an attribute."""
        given = self.inputs[position] if position < len(self.inputs) else None
        numbers = self.attributes.get(attribute) if given is None else given.ravel()
        return None if numbers is None else [int(number) for number in numbers]


def of_elements(function: Callable[..., Any]) -> Fold:
    """Return the fold of a function of elements at the same index, with operands broadcast."""

    def fold(site: FoldSite) -> Results:
        return [function(*(np.broadcast_to(data, site.result.shape) for data in site.operands))]

    return fold


def accumulated(function: np.ufunc) -> Fold:
    """Return the fold of a function of two elements over any number of operands."""

    def fold(site: FoldSite) -> Results:
        first, *others = (np.broadcast_to(data, site.result.shape) for data in site.operands)
        for data in others:
            first = function(first, data)
        return [first]

    return fold


def reduced(function: Callable[..., Any]) -> Fold:
    """Return the fold of a function of all elements along some axes."""

    def fold(site: FoldSite) -> Results:
        axes = site.listing(1, "axes")
        if not site.data.size:
            return None
        if not axes and site.attributes.get("noop_with_empty_axes", 0):
            return [site.data]
        return [function(site.data, axis=tuple(axes) if axes else None).reshape(site.result.shape)]

    return fold


def quotient(a: Array, b: Array) -> Array:
    """Return the quotient, of integers rounded towards zero."""
    if a.dtype.kind not in "iu":
        return np.asarray(np.divide(a, b))
    if not b.all():
        raise ZeroDivisionError
    return np.asarray(np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)))


def remainder(site: FoldSite) -> Results:
    """Return the remainder with the sign of the divisor, or with attribute `fmod` that of the dividend."""
    a, b = (np.broadcast_to(data, site.result.shape) for data in site.operands)
    if a.dtype.kind in "iu" and not b.all():
        return None
    return [np.fmod(a, b) if site.attributes.get("fmod", 0) else np.mod(a, b)]


def clip(site: FoldSite) -> Results:
    """Return the elements of input 0, at least input 1 and at most input 2."""
    low, high = (*site.inputs[1:3], None, None)[:2]
    clipped = site.data if low is None else np.maximum(site.data, low)
    return [clipped if high is None else np.minimum(clipped, high)]


def identity(site: FoldSite) -> Results:
    """Return the elements of input 0 in their order, for changes of shape or type."""
    return [site.data.reshape(site.result.shape)]


def broadcast(site: FoldSite) -> Results:
    """Return input 0 broadcast."""
    return [np.broadcast_to(site.data, site.result.shape)]


def constant_of_shape(site: FoldSite) -> Results:
    """Return a tensor of one number."""
    value = site.attributes.get("value")
    number = np.zeros(1, np.float32) if value is None else numpy_helper.to_array(value)
    return [np.broadcast_to(number.reshape(()), site.result.shape)]


def arange(site: FoldSite) -> Results:
    """Return numbers from input 0 on, in steps of input 2."""
    return [site.data + np.arange(site.result.elements) * site.needed(2)]


def concat(site: FoldSite) -> Results:
    """Return the concatenation of the operands."""
    return [np.concatenate(site.operands, axis=site.attributes.get("axis", 1))]


def split(site: FoldSite) -> Results:
    """Return input 0 split along an axis into the sizes of the results."""
    axis = site.attributes.get("axis", 0)
    sizes = [0 if value is None else value.shape[axis] for value in site.outputs]
    return np.split(site.data, list(accumulate(sizes))[:-1], axis=axis)


def slice_(site: FoldSite) -> Results:
    """Return the slice of input 0 from starts to ends."""
    starts, ends = site.listing(1, "starts"), site.listing(2, "ends")
    if starts is None or ends is None:
        return None
    axes, steps = site.listing(3, "axes") or range(len(starts)), site.listing(4, "steps") or [1] * len(starts)
    cut = [slice(None)] * site.data.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        cut[axis] = slice(start, end, step)
    return [site.data[tuple(cut)]]


def gather(site: FoldSite) -> Results:
    """Return slices of input 0 along an axis, by index."""
    return [np.take(site.data, site.needed(1), axis=site.attributes.get("axis", 0))]


def gather_elements(site: FoldSite) -> Results:
    """Return along an axis one element for each index in input 1."""
    data, numbers, axis = site.data, site.needed(1), site.attributes.get("axis", 0)
    fits = np.delete(data.shape, axis).tolist() == np.delete(numbers.shape, axis).tolist()
    return [np.take_along_axis(data, numbers, axis)] if fits else None


def transpose(site: FoldSite) -> Results:
    """Return input 0 with its axes in another order."""
    return [np.transpose(site.data, site.attributes.get("perm"))]


def tile(site: FoldSite) -> Results:
    """Return input 0 repeated along each axis."""
    times = site.listing(1, "repeats") or []
    fits = site.data.size * math.prod(times) == site.result.elements
    return [np.tile(site.data, times)] if fits else None


def nonzero(site: FoldSite) -> Results:
    """Return the indices of the elements of input 0 that are not zero."""
    return [np.array(np.nonzero(site.data), dtype=np.int64)]
