"""The free constants of a chip, which measured latencies determine and data sheets do not."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from memplace_env._lib.errors import CalibrationError
from memplace_env._lib.hints import nearest
from memplace_env.machine.accelerator.description import Description, Field

OVERHEAD = "op_overhead_ns"
LEAST_SHARE = 0.01
"""Smallest efficiency that is tried. Our choice."""


class Constant(NamedTuple):
    """A number of a chip's description that may be fitted.

    A fit has one coordinate for each: the logarithm of an efficiency, and the overhead as a fraction of the largest
    possible one, as it may be 0.

    Attributes:
        name: its name in tables and flags.
        field: its place in the file.
        before: its value in the file; an efficiency that is left out is 1.
        low, high: bounds: an efficiency is at least 0.01 (or what it was), at most 1, and leaves the levels' bandwidths
            in their order; the overhead is at least 0 and at most what the slowest measurement has for each of its ops.
    """

    name: str
    field: Field
    before: float
    low: float
    high: float

    def coordinate(self, value: float) -> float:
        """Return the coordinate of a value."""
        return value / self.high if self.name == OVERHEAD else math.log(value)

    def value(self, coordinate: float) -> float:
        """Return the value at a coordinate."""
        return coordinate * self.high if self.name == OVERHEAD else math.exp(coordinate)

    def slope(self, value: float) -> float:
        """Return the derivative of the value by its coordinate."""
        return self.high if self.name == OVERHEAD else value


def constant_names(description: Description) -> list[str]:
    """Return a chip's constants, in the order in which they are fitted if measurements are too few for all.

    First the efficiencies of compute and of the backing memory and the overhead of an op, on which most latencies
    depend, then the efficiencies of the other levels, slowest first. Our choice.
    """
    *fast, backing = (f"{level['name']}.efficiency" for level in description.document["memory"])
    return ["compute.efficiency", backing, OVERHEAD, *reversed(fast)]


def chosen_constants(
    description: Description, fit: Sequence[str] | None, count: int, most_overhead_ns: float
) -> tuple[list[Constant], dict[str, str]]:
    """Return the constants to fit, and the reason to leave each of the others as it is.

    Args:
        description: description of the chip.
        fit: names of those to fit; None: as many as can be.
        count: how many measurements there are.
        most_overhead_ns: the largest overhead of an op that is tried.

    Raises:
        CalibrationError: for an unknown name, one that is there twice, or more names than measurements.
    """
    available = constant_names(description)
    names = available if fit is None else list(fit)
    for name in names:
        if name not in available:
            close = nearest(name, available)
            hint = f"; did you mean {close}?" if close else ""
            raise CalibrationError(
                f"{name!r} is not a constant of {description.document['name']!r}: it has {', '.join(available)}{hint}"
            )
    if not names or len(set(names)) < len(names):
        raise CalibrationError("Name each constant that is to be fitted once, and at least one.")
    if fit is not None and len(names) > count:
        raise CalibrationError(
            f"{count} measurements cannot determine {len(names)} constants; measure more, or fit fewer of them."
        )
    left = {name: "not asked for" for name in available if name not in names}
    constants = [_constant(description, name, names, most_overhead_ns) for name in names]
    stuck = [constant for constant in constants if constant.high <= constant.low * 1.001]
    left |= {constant.name: "its neighbours' bandwidths leave it no room" for constant in stuck}
    constants = [constant for constant in constants if constant not in stuck]
    left |= {constant.name: "more constants than measurements" for constant in constants[count:]}
    if not constants:
        raise CalibrationError(f"Nothing can be fitted: {', '.join(names)} has no room between its bounds.")
    return constants[:count], left


def values_at(
    description: Description, constants: Sequence[Constant], coordinates: Sequence[float], digits: int
) -> dict[Field, Decimal]:
    """Return the values of the fields; efficiencies are rounded to `digits`, the overhead to whole picoseconds.

    A level that would be faster than the one before it gets that one's bandwidth.
    """
    values: dict[Field, Decimal] = {}
    for constant, coordinate in zip(constants, coordinates, strict=True):
        value = min(max(constant.value(coordinate), constant.low), constant.high)
        values[constant.field] = round(Decimal(value), 3 if constant.name == OVERHEAD else digits)
    before: Fraction | None = None
    for index, level in enumerate(description.document["memory"]):
        field, peak = ("memory", index, "efficiency"), Fraction(level["read_bytes_per_s"])
        rate = peak * Fraction(values.get(field, _efficiency(level)))
        if field in values and before is not None and rate > before:
            steps = before / peak * 10**digits
            values[field] = Decimal(math.floor(steps)).scaleb(-digits)
            rate = peak * Fraction(values[field])
        before = rate
    return values


def _constant(description: Description, name: str, fitted: Sequence[str], most_overhead_ns: float) -> Constant:
    document = description.document
    if name == OVERHEAD:
        before = float(document["compute"][OVERHEAD])
        return Constant(name, ("compute", OVERHEAD), before, 0.0, max(before, most_overhead_ns))
    if name == "compute.efficiency":
        before = float(_efficiency(document["compute"]))
        return Constant(name, ("compute", "efficiency"), before, min(before, LEAST_SHARE), 1.0)
    levels = document["memory"]
    index = [f"{level['name']}.efficiency" for level in levels].index(name)
    before, peak = float(_efficiency(levels[index])), levels[index]["read_bytes_per_s"]
    fixed = {
        other: float(level["read_bytes_per_s"] * _efficiency(level))
        for other, level in enumerate(levels)
        if f"{level['name']}.efficiency" not in fitted
    }
    slower = [rate / float(peak) for other, rate in fixed.items() if other > index]
    faster = [rate / float(peak) for other, rate in fixed.items() if other < index]
    low, high = max([min(before, LEAST_SHARE), *slower]), min([1.0, *faster])
    return Constant(name, ("memory", index, "efficiency"), before, low, high)


def _efficiency(table: Mapping[str, Any]) -> Any:
    return table.get("efficiency", Decimal(1))
