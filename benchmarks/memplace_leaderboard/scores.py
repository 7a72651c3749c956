"""Statistics of scores: pure functions over arrays.

Interquartile mean, optimality gap, stratified bootstrap and probability of improvement are those of Agarwal et al.,
"Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS 2021), but that the bootstrap draws
instances too. An array of scores is float[..., runs, instances]; the statistics work over its last two axes, so that a
bootstrap is one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import trim_mean

from memplace_env._lib.errors import LeaderboardError

Floats = NDArray[np.float64]
Statistic = Callable[..., Floats]
Interval = tuple[Floats, Floats]
Curve = tuple[Floats, Floats]
"""Evaluations or seconds, rising, at which better plans were found, and the shares of the gain from then on."""


def share(latency: ArrayLike, baseline: ArrayLike, best: ArrayLike, least_gain: float = 0.0) -> Floats:
    """Return the share of the gain: 1 for the best known plan and more for a better one.

    Where the best known plan gains less than `least_gain`, shares are of that.

    The baseline is free, so that slower plans count as it and score 0. If the best known plan is no faster than the
    baseline there is nothing to gain, and all plans score 0.
    """
    base = np.asarray(baseline, dtype=np.float64)
    gained = base / np.minimum(base, latency) - 1
    to_gain = np.maximum(base / np.asarray(best, dtype=np.float64) - 1, least_gain)
    nothing = np.zeros(np.broadcast_shapes(np.shape(gained), np.shape(to_gain)))
    return np.asarray(np.divide(gained, to_gain, out=nothing, where=to_gain > 0))


def mean_score(scores: Floats) -> Floats:
    """Return the mean of all pairs of run and instance, by which rows are ranked: float[...]."""
    return np.asarray(scores.mean((-2, -1)))


def optimality_gap(scores: Floats) -> Floats:
    """Return the mean amount by which scores miss 1; what is above 1 makes up for nothing: float[...]."""
    return np.asarray((1 - np.minimum(scores, 1)).mean((-2, -1)))


def interquartile_mean(scores: Floats) -> Floats:
    """Return the mean without the lowest and the highest quarter of all pairs of run and instance: float[...]."""
    return np.asarray(trim_mean(scores.reshape(*scores.shape[:-2], -1), 0.25, axis=-1))


def probability_of_improvement(x: Floats, y: Floats) -> Floats:
    """Return the probability that a run of x scores more than one of y, ties half, mean over instances: float[...].

    Args:
        x, y: scores of the same instances, float[..., runs, instances]; the numbers of runs may differ.
    """
    a, b = x[..., :, None, :], y[..., None, :, :]  # all pairs of runs: float[..., runs of x, runs of y, instances]
    return np.asarray(((a > b).mean((-3, -2, -1)) + (a >= b).mean((-3, -2, -1))) / 2)


def stratified_bootstrap(
    statistic: Statistic, *scores: Floats, resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> Interval | None:
    """Return the percentile interval of a statistic under other instances and other seeds.

    Instances are drawn with replacement, the same for all arrays, and then runs with replacement within each drawn
    instance, separately. So the interval covers the choice of programs and the effect of seeds. It says too little if
    there are few instances: with fewer than about twelve, an interval is too narrow.

    Args:
        statistic: takes as many arrays as are given, float[..., runs, instances], and returns float[...] or
            float[..., n], such as `mean_score`, `probability_of_improvement`.
        scores: float[runs, instances] each, of the same instances.
        resamples: number of resamples.
        seed: seed of the draws.
        level: confidence level.

    Returns:
        Low and high end, or None for one run of one instance, of which nothing can be drawn.

    Raises:
        LeaderboardError: if there are no resamples, or the level is not between 0 and 1.
    """
    if resamples < 1 or not 0 < level < 1:
        raise LeaderboardError(f"resamples must be at least 1 and level in (0, 1), not {resamples} and {level}.")
    if all(array.size < 2 for array in scores):
        return None
    generator = np.random.default_rng(seed)
    instances = scores[0].shape[1]
    drawn = generator.integers(instances, size=(resamples, 1, instances))
    values = statistic(*(_resampled(array, drawn, generator) for array in scores))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.asarray(low), np.asarray(high)


def _resampled(scores: Floats, drawn: NDArray[np.int64], generator: np.random.Generator) -> Floats:
    """Draw runs with replacement, separately for each drawn instance: float[resamples, runs, instances]."""
    runs, instances = scores.shape
    return np.asarray(scores[generator.integers(runs, size=(len(drawn), runs, instances)), drawn])


def best_at(curve: Curve, budgets: ArrayLike) -> Floats:
    """Return the share reached at each of these evaluations or seconds; 0 before the first point."""
    at, shares = curve
    return np.concatenate([[0.0], shares])[np.searchsorted(at, budgets, side="right")]


def area_under_curve(curve: Curve, end: float, start: float = 1.0) -> float:
    """Return the mean of a curve over the logarithm of evaluations or seconds, from start to end.

    It is 1 if the best known plan is found at once. Plans found before the start count from there, those after the end
    not at all. If the end is not past the start, it is the share reached at the end.
    """
    if end <= start:
        return float(best_at(curve, end))
    at, shares = curve
    steps = np.log10(np.clip(np.append(at, end), start, end))
    return float(np.diff(steps) @ shares / np.log10(end / start))


def mean_curve(curves: Sequence[Curve], grid: Floats) -> Floats:
    """Return the mean of the curves at each point of a grid of evaluations or seconds: float[grid].

    Raises:
        LeaderboardError: if there are no curves.
    """
    if not curves:
        raise LeaderboardError("mean_curve needs at least one curve.")
    return np.asarray(np.mean([best_at(curve, grid) for curve in curves], axis=0))
