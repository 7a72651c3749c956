"""Statistics of scores: pure functions over arrays.

Interquartile mean, stratified bootstrap, probability of improvement and performance profiles are those of Agarwal et
al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice" (NeurIPS 2021). An array of scores is
float[..., runs, instances]; the statistics work over its last two axes, so that a bootstrap is one call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import trim_mean

from memplace_env.errors import LeaderboardError

Floats = NDArray[np.float64]
Statistic = Callable[..., Floats]
Interval = tuple[Floats, Floats]
Curve = tuple[Floats, Floats]
"""When a better plan was found (evaluations or seconds, rising), and the share of the gain from then on."""


def share(latency: ArrayLike, baseline: ArrayLike, best: ArrayLike) -> Floats:
    """Share of the gain, 1 for the best known plan and more for a better one.

    The baseline is free: slower plans count as it and score 0. So does all where the best known plan is no faster
    than the baseline, as there is nothing to gain.
    """
    base = np.asarray(baseline, dtype=np.float64)
    gained = base / np.minimum(base, latency) - 1
    to_gain = base / np.asarray(best, dtype=np.float64) - 1
    nothing = np.zeros(np.broadcast_shapes(np.shape(gained), np.shape(to_gain)))
    return np.asarray(np.divide(gained, to_gain, out=nothing, where=to_gain > 0))


def interquartile_mean(scores: Floats) -> Floats:
    """Mean without the lowest and the highest quarter of all pairs of run and instance: float[...]."""
    return np.asarray(trim_mean(scores.reshape(*scores.shape[:-2], -1), 0.25, axis=-1))


def probability_of_improvement(x: Floats, y: Floats) -> Floats:
    """Probability that a run of x scores more than one of y, ties half, mean over the instances: float[...].

    Args:
        x, y: float[..., runs, instances], of the same instances; the numbers of runs may differ.
    """
    mine, other = x[..., :, None, :], y[..., None, :, :]
    return np.asarray(((mine > other).mean((-3, -2, -1)) + (mine >= other).mean((-3, -2, -1))) / 2)


def performance_profile(scores: Floats, thresholds: Floats) -> Floats:
    """Share of the pairs of run and instance that score more than each of the thresholds: float[..., thresholds]."""
    return np.stack([(scores > threshold).mean((-2, -1)) for threshold in thresholds], axis=-1)


def stratified_bootstrap(
    statistic: Statistic, *scores: Floats, resamples: int = 2000, seed: int = 0, level: float = 0.95
) -> Interval | None:
    """Percentile interval of a statistic under other seeds of the same instances.

    Runs are drawn with replacement within each instance, by itself. It says what the seeds do and not what another
    choice of instances would.

    Args:
        statistic: takes as many arrays as are given, float[..., runs, instances], and returns float[...] or
            float[..., n], such as `interquartile_mean`, `probability_of_improvement`.
        scores: float[runs, instances] each, drawn independently.
        resamples: how many.
        seed: of the draws.
        level: of confidence.

    Returns:
        Low and high end, or None if each array has one run: nothing is known of its other seeds, or there are none.

    Raises:
        LeaderboardError: if there are no resamples, or the level is not between 0 and 1.
    """
    if resamples < 1 or not 0 < level < 1:
        raise LeaderboardError(f"A bootstrap of {resamples} resamples at level {level} makes no sense; use 2000, 0.95.")
    if all(len(each) < 2 for each in scores):
        return None
    generator = np.random.default_rng(seed)
    values = statistic(*(_resampled(each, resamples, generator) for each in scores))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return np.asarray(low), np.asarray(high)


def _resampled(scores: Floats, resamples: int, generator: np.random.Generator) -> Floats:
    """float[resamples, runs, instances]."""
    runs, instances = scores.shape
    return scores[generator.integers(runs, size=(resamples, runs, instances)), np.arange(instances)]


def best_at(curve: Curve, budgets: ArrayLike) -> Floats:
    """Share of the plan in hand at each of these evaluations or seconds; 0 before the first point."""
    at, shares = curve
    return np.concatenate([[0.0], shares])[np.searchsorted(at, budgets, side="right")]


def area_under_curve(curve: Curve, end: float, start: float = 1.0) -> float:
    """Mean of a curve over the logarithm of evaluations or seconds, from start to end: 1 for the best plan at once.

    What is found before the start counts from there, and what is found after the end not at all. If the end is not
    past the start, it is what is in hand at the end.
    """
    if end <= start:
        return float(best_at(curve, end))
    at, shares = curve
    steps = np.log10(np.clip(np.append(at, end), start, end))
    return float(np.diff(steps) @ shares / np.log10(end / start))


def mean_curve(curves: Sequence[Curve], grid: Floats) -> Floats:
    """Mean of the curves at each point of a grid of evaluations or seconds: float[grid].

    Raises:
        LeaderboardError: if there are no curves.
    """
    if not curves:
        raise LeaderboardError("There is no mean of no curves; pass one for each run.")
    return np.asarray(np.mean([best_at(curve, grid) for curve in curves], axis=0))
