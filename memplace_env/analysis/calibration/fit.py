"""Least squares within bounds on the logarithms of latencies, and what is known of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from memplace_env.analysis.calibration.constants import Constant

Floats = NDArray[np.float64]
Residuals = Callable[[Floats], Floats]
"""float64[N] of float64[P]: log(simulated / measured) at some coordinates, see `Constant`."""

STEP = 1e-4
"""Of coordinates, for slopes: far above what rounding to picoseconds adds, far below what bends."""
RESTARTS = 2
"""Starts beside the chip's present values: a latency has kinks, where something else begins to bind."""
GOOD, BETTER = 1e-3, 0.99
"""Root mean square of residuals below which nothing is searched for further, and how much better a restart must be."""
INSIDE = 0.02
"""Share of its range by which a search begins inside the bounds."""
PULL = 1e-3
"""How much a coordinate's distance from the chip's present value counts as a residual: so little that it decides only
what the measurements leave open. Our choice."""
WEAK = 0.01
"""Root mean square of what a coordinate changes about latencies below which they do not determine it. Our choice: 1 %
for a factor e of an efficiency or the whole range of the overhead."""


class Fitted(NamedTuple):
    """A constant after the fit.

    Attributes:
        constant: which.
        after: its value.
        standard_error: of the value, for errors as large as the residuals that are left; None if there are no more
            measurements than constants that could move, it is at a bound, or not determined.
        determined: whether the measurements tell its value; else it is one of many that fit as well.
        at_bound: whether it would go further if it could.
    """

    constant: Constant
    after: float
    standard_error: float | None
    determined: bool
    at_bound: bool


def fitted_coordinates(residuals: Residuals, constants: Sequence[Constant], near: Floats | None = None) -> Floats:
    """float64[P], the coordinates with the least sum of squares that was found.

    The first start is the chip's present values, the others are drawn from a fixed seed; or the only one is `near`. A
    constant that changes next to nothing where the fit ended is put back.
    """
    low, high = _bounds(constants)
    present = np.clip([constant.coordinate(constant.before) for constant in constants], low, high)
    rng = np.random.default_rng(0)
    starts = [near] if near is not None else [present, *(rng.uniform(low, high) for _ in range(RESTARTS))]
    best, least = present, float("inf")
    for start in starts:
        found, error = _descent(residuals, start, present, low, high)
        if error < BETTER * least:
            best, least = found, error
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


def judged(
    residuals: Residuals, constants: Sequence[Constant], coordinates: Floats, after: Sequence[float]
) -> list[Fitted]:
    """What is known of each constant at the coordinates that a fit found; `after` are the values there, rounded."""
    low, high = _bounds(constants)
    slopes = jacobian(residuals, coordinates, low, high)
    at_bound = (coordinates - low < STEP) | (high - coordinates < STEP)
    determined = _rms(slopes) >= WEAK
    free = np.flatnonzero(~at_bound & determined)
    _, strength, directions = np.linalg.svd(slopes[:, free], full_matrices=False)
    full = np.sqrt(len(slopes)) * WEAK
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
            float(error * constant.slope(value)) if known and np.isfinite(error) else None,
            bool(known),
            bool(bound and known),
        )
        for constant, value, error, known, bound in zip(constants, after, errors, determined, at_bound, strict=True)
    ]


def jacobian(residuals: Residuals, at: Floats, low: Floats, high: Floats) -> Floats:
    """float64[N, P], slopes by one step of each coordinate, back where there is no room ahead."""
    here = residuals(at)
    columns = []
    for index in range(len(at)):
        step = STEP if at[index] + STEP <= high[index] else -STEP
        moved = at.copy()
        moved[index] += step
        columns.append((residuals(moved) - here) / step)
    return np.stack(columns, axis=1)


def _descent(residuals: Residuals, start: Floats, present: Floats, low: Floats, high: Floats) -> tuple[Floats, float]:
    """Where it ends, and the root mean square of the residuals there.

    It begins a little inside the bounds: the search would take steps as small as its distance from them.
    """

    def pulled(at: Floats) -> Floats:
        return np.concatenate([residuals(at), PULL * (at - present)])

    def slopes(at: Floats) -> Floats:
        return np.concatenate([jacobian(residuals, at, low, high), PULL * np.eye(len(at))])

    inside = np.clip(start, low + INSIDE * (high - low), high - INSIDE * (high - low))
    result = least_squares(pulled, inside, slopes, (low, high), xtol=1e-4, ftol=1e-4, max_nfev=20)
    found: Floats = result.x
    found = np.where(found - low < STEP, low, np.where(high - found < STEP, high, found))
    return found, float(np.sqrt(np.mean(residuals(found) ** 2)))


def _bounds(constants: Sequence[Constant]) -> tuple[Floats, Floats]:
    ends = [(constant.coordinate(constant.low), constant.coordinate(constant.high)) for constant in constants]
    low, high = np.array(ends).T
    return low, high


def _rms(slopes: Floats) -> Floats:
    root: Floats = np.sqrt(np.mean(slopes**2, axis=0))
    return root
