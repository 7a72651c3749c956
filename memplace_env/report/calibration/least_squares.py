"""Least squares within bounds on the logarithms of latencies, with the errors of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from memplace_env.report.calibration.chip_constants import Constant

Floats = NDArray[np.float64]
Residuals = Callable[[Floats], Floats]
"""Function from float64[P] to float64[N]: log(simulated / measured) at coordinates, see `Constant`."""

STEP = 1e-4
"""Step of a coordinate for slopes: far above rounding to picoseconds, far below the scale of curvature."""
RESTARTS = 2
"""Starts beside the chip's present values: latencies have kinks, where another resource begins to bind."""
GOOD, BETTER = 1e-3, 0.99
"""Root mean square of residuals that ends the search, and the factor by which a restart must improve it."""
INSIDE = 0.02
"""Fraction of its range by which a search begins inside the bounds."""
PULL = 1e-3
"""Weight of a coordinate's distance from the chip's present value as a residual: so small that it decides only what
the measurements leave open. Our choice."""
WEAK = 0.01
"""Root mean square change of latencies by a coordinate below which they do not determine it. Our choice: 1 %
for a factor e of an efficiency or the whole range of the overhead."""


class Fitted(NamedTuple):
    """A constant after the fit.

    Attributes:
        constant: the constant.
        after: its value.
        standard_error: of the value, for errors as large as the residuals that are left; None if there are no more
            measurements than constants that could move, it is at a bound, or not determined.
        determined: whether the measurements determine its value; else many values fit as well.
        at_bound: whether the bound keeps it from going further.
    """

    constant: Constant
    after: float
    standard_error: float | None
    determined: bool
    at_bound: bool


def fitted_coordinates(residuals: Residuals, constants: Sequence[Constant], near: Floats | None = None) -> Floats:
    """Return float64[P], the coordinates with the least sum of squares that was found.

    The first start is the chip's present values, the others are drawn from a fixed seed; or the only one is `near`. A
    constant that changes next to nothing where the fit ended is put back.
    """
    low, high = _bounds(constants)
    present = np.clip([constant.coordinate(constant.before) for constant in constants], low, high)
    rng = np.random.default_rng(0)
    starts = [near] if near is not None else [present, *(rng.uniform(low, high) for _ in range(RESTARTS))]
    best, least = present, float("inf")
    for start in starts:
        end, error = _descent(residuals, start, present, low, high)
        if error < BETTER * least:
            best, least = end, error
        if least < GOOD:
            break
    idle = _rms(jacobian(residuals, best, low, high)) < WEAK
    kept = np.where(idle, present, best)
    if idle.all() or (kept == best).all():
        return kept

    def of_the_rest(moved: Floats) -> Floats:
        whole = kept.copy()
        whole[~idle] = moved
        return residuals(whole)

    kept[~idle], _ = _descent(of_the_rest, best[~idle], present[~idle], low[~idle], high[~idle])
    return kept


def evaluated(
    residuals: Residuals, constants: Sequence[Constant], coordinates: Floats, after: Sequence[float]
) -> list[Fitted]:
    """Return each constant with its error at the coordinates of a fit; `after` are the values there, rounded."""
    low, high = _bounds(constants)
    slopes = jacobian(residuals, coordinates, low, high)
    at_bound = (coordinates - low < STEP) | (high - coordinates < STEP)
    determined = _rms(slopes) >= WEAK
    free = np.flatnonzero(~at_bound & determined)
    _, strength, directions = np.linalg.svd(slopes[:, free], full_matrices=False)
    full = np.sqrt(len(slopes)) * WEAK  # as the root mean square of one slope, for a sum over all measurements
    weak = np.abs(directions[strength < full]) > 0.1
    determined[free[weak.any(axis=0)]] = False
    spare = len(slopes) - len(free)
    errors = np.full(len(constants), np.nan)
    if spare > 0:
        noise = np.sqrt((residuals(coordinates) ** 2).sum() / spare)
        errors[free] = noise * np.sqrt(((directions.T / np.maximum(strength, 1e-12)) ** 2).sum(axis=1))
        determined &= ~(errors > 1)
    return [
        Fitted(
            constant,
            value,
            float(error * constant.slope(value)) if sure and np.isfinite(error) else None,
            bool(sure),
            bool(bound and sure),
        )
        for constant, value, error, sure, bound in zip(constants, after, errors, determined, at_bound, strict=True)
    ]


def jacobian(residuals: Residuals, at: Floats, low: Floats, high: Floats) -> Floats:
    """Return float64[N, P], slopes by one step of each coordinate, backwards where there is no room ahead."""
    here = residuals(at)
    columns = []
    for index in range(len(at)):
        step = STEP if at[index] + STEP <= high[index] else -STEP
        moved = at.copy()
        moved[index] += step
        columns.append((residuals(moved) - here) / step)
    return np.stack(columns, axis=1)


def _descent(residuals: Residuals, start: Floats, present: Floats, low: Floats, high: Floats) -> tuple[Floats, float]:
    """Return the coordinates at the end of a descent, and the root mean square of the residuals there.

    It begins a little inside the bounds: the search would take steps as small as its distance from them.
    """

    def pulled(at: Floats) -> Floats:
        return np.concatenate([residuals(at), PULL * (at - present)])

    def slopes(at: Floats) -> Floats:
        return np.concatenate([jacobian(residuals, at, low, high), PULL * np.eye(len(at))])

    inside = np.clip(start, low + INSIDE * (high - low), high - INSIDE * (high - low))
    result = least_squares(pulled, inside, slopes, (low, high), xtol=1e-4, ftol=1e-4, max_nfev=20)
    end: Floats = result.x
    end = np.where(end - low < STEP, low, np.where(high - end < STEP, high, end))  # a bound that is almost reached
    return end, float(np.sqrt(np.mean(residuals(end) ** 2)))


def _bounds(constants: Sequence[Constant]) -> tuple[Floats, Floats]:
    ends = [(constant.coordinate(constant.low), constant.coordinate(constant.high)) for constant in constants]
    low, high = np.array(ends).T
    return low, high


def _rms(slopes: Floats) -> Floats:
    root: Floats = np.sqrt(np.mean(slopes**2, axis=0))
    return root
