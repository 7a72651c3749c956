"""Statistics of scores against plain loops, and what must be true of them."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from memplace_env._lib.errors import LeaderboardError
from memplace_leaderboard import scores as s
from tests.thorough import examples

SHARES = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]) | st.floats(0, 1.5, width=32)


SOME = st.integers(1, 8)


def tables(instances=SOME):
    return st.tuples(st.integers(1, 6), instances).flatmap(lambda shape: arrays(np.float64, shape, elements=SHARES))


@st.composite
def pairs(draw):
    """Scores of two submissions on the same instances."""
    instances = st.just(draw(SOME))
    return draw(tables(instances=instances)), draw(tables(instances=instances))


@st.composite
def curves(draw):
    at = np.array(sorted(draw(st.lists(st.integers(1, 2000), max_size=8, unique=True))), dtype=float)
    return at, np.sort(draw(arrays(np.float64, len(at), elements=SHARES)))


@given(st.integers(1, 10**12), st.integers(1, 10**12), st.integers(1, 10**12))
def test_share_is_none_of_the_gain_at_the_baseline_and_all_at_the_best(latency, baseline, best):
    assert s.share(baseline, baseline, best) == 0
    if best < baseline:
        assert s.share(best, baseline, best) == pytest.approx(1)
        expected = max(0.0, (baseline / latency - 1) / (baseline / best - 1))
        assert s.share(latency, baseline, best) == pytest.approx(expected)
    else:
        assert s.share(latency, baseline, best) == 0


def test_where_little_is_to_be_gained_shares_are_of_the_least_gain():
    assert s.share(1000, 1010, 1000, 0.03) == pytest.approx(1 / 3)
    assert s.share(1000, 1100, 1000, 0.03) == 1


def test_share_passes_one_where_the_best_known_plan_is_beaten():
    assert s.share([200, 100, 80, 50], 100, 80).tolist() == pytest.approx([0, 0, 1, 4])


@given(tables())
def test_interquartile_mean_is_that_of_a_plain_loop(scores):
    ordered = sorted(value for run in scores.tolist() for value in run)
    cut = len(ordered) // 4
    middle = ordered[cut : len(ordered) - cut]
    found = float(s.interquartile_mean(scores))
    assert found == pytest.approx(sum(middle) / len(middle))
    assert scores.min() - 1e-12 <= found <= scores.max() + 1e-12


@given(pairs())
def test_probability_of_improvement_is_that_of_a_plain_loop(pair):
    x, y = pair
    wins = [
        sum((a > b) + (a == b) / 2 for a in x[:, i] for b in y[:, i]) / (len(x) * len(y)) for i in range(x.shape[1])
    ]
    assert float(s.probability_of_improvement(x, y)) == pytest.approx(sum(wins) / len(wins))
    assert s.probability_of_improvement(x, y) + s.probability_of_improvement(y, x) == pytest.approx(1)
    assert s.probability_of_improvement(x, x) == pytest.approx(0.5)


@examples(20)
@given(pairs(), st.integers(0, 99))
def test_bootstrap_is_that_of_a_plain_loop(pair, seed):
    """Instances are drawn once for both arrays, and runs within each drawn instance, alone."""
    found = s.stratified_bootstrap(s.probability_of_improvement, *pair, resamples=30, seed=seed)
    if all(scores.size == 1 for scores in pair):
        assert found is None
        return
    generator, instances = np.random.default_rng(seed), pair[0].shape[1]
    drawn = generator.integers(instances, size=(30, 1, instances))
    runs = [generator.integers(len(scores), size=(30, len(scores), instances)) for scores in pair]
    values = []
    for resample in range(30):
        again = [
            np.array(
                [
                    [scores[of[resample, run, place], drawn[resample, 0, place]] for place in range(instances)]
                    for run in range(len(scores))
                ]
            )
            for scores, of in zip(pair, runs, strict=True)
        ]
        values.append(float(s.probability_of_improvement(*again)))
    assert (float(found[0]), float(found[1])) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))


def test_one_failing_instance_widens_the_interval_that_seeds_alone_would_leave_narrow():
    steady = np.array([[1.0, 1.0, 1.0, 0.0]] * 5)
    low, high = s.stratified_bootstrap(s.mean_score, steady)
    assert low <= 0.5 < 0.75 < high == 1


@given(tables())
def test_optimality_gap_is_that_of_a_plain_loop(scores):
    missing = [max(1 - value, 0) for value in scores.ravel().tolist()]
    assert float(s.optimality_gap(scores)) == pytest.approx(sum(missing) / len(missing))
    assert float(s.mean_score(scores)) == pytest.approx(np.mean(scores))


def test_bootstrap_goes_by_its_seed():
    scores = np.random.default_rng(0).random((5, 20))
    first, again, other = (s.stratified_bootstrap(s.interquartile_mean, scores, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


@pytest.mark.parametrize("instances", [1, 20])
def test_interval_holds_the_middle_of_symmetric_scores_and_narrows_with_runs(instances):
    widths = []
    for runs in (4, 16, 64):
        half = np.random.default_rng(runs).normal(size=(runs // 2, instances))
        scores = np.concatenate([half, -half])
        low, high = s.stratified_bootstrap(s.interquartile_mean, scores)
        assert low < s.interquartile_mean(scores) < high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]


def test_interval_covers_the_truth_as_often_as_it_says():
    """20 programs drawn of a population with mean 0, with 5 seeds each: how often the interval has the population's."""
    generator = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        scores = generator.normal(size=(1, 20)) + generator.normal(scale=0.5, size=(5, 20))
        low, high = s.stratified_bootstrap(s.mean_score, scores, resamples=200, seed=trial)
        covered += low <= 0 <= high
    assert 0.88 <= covered / 200 <= 0.99


def test_one_run_of_one_instance_has_no_interval_and_one_run_of_several_has():
    one, five = np.full((1, 6), 0.5), np.random.default_rng(0).random((5, 6))
    assert s.stratified_bootstrap(s.mean_score, one[:, :1]) is None
    assert s.stratified_bootstrap(s.mean_score, one) == (0.5, 0.5)
    low, high = s.stratified_bootstrap(s.probability_of_improvement, five, one)
    assert low < s.probability_of_improvement(five, one) < high


@pytest.mark.parametrize("arguments", [{"resamples": 0}, {"level": 0.0}, {"level": 1.0}])
def test_a_bootstrap_that_makes_no_sense_is_refused(arguments):
    with pytest.raises(LeaderboardError, match="must be at least 1"):
        s.stratified_bootstrap(s.interquartile_mean, np.zeros((2, 2)), **arguments)


def test_bootstraps_are_quick():
    x, y = np.random.default_rng(0).random((2, 5, 101))
    started = time.process_time()
    s.stratified_bootstrap(s.interquartile_mean, x)
    s.stratified_bootstrap(s.probability_of_improvement, x, y)
    assert time.process_time() - started < 2


@given(curves(), st.lists(st.floats(0, 3000), min_size=1))
def test_best_at_is_the_last_point_until_then(curve, budgets):
    expected = [([0.0] + [share for at, share in zip(*curve, strict=True) if at <= b])[-1] for b in budgets]
    assert s.best_at(curve, budgets).tolist() == expected


@given(curves(), st.integers(2, 1500))
def test_area_is_that_of_a_plain_loop(curve, end):
    edges = [1, *(int(at) for at in curve[0] if 1 < at < end), end]
    pieces = [
        float(s.best_at(curve, left)) * (math.log10(right) - math.log10(left))
        for left, right in itertools.pairwise(edges)
    ]
    assert s.area_under_curve(curve, end) == pytest.approx(sum(pieces) / math.log10(end), abs=1e-9)


@given(curves(), st.integers(1, 1500), st.floats(0, 1))
def test_a_better_curve_has_no_smaller_area(curve, end, more):
    at, shares = curve
    area = s.area_under_curve(curve, end)
    assert area <= s.area_under_curve((at, shares + more), end) + 1e-9
    assert area <= s.area_under_curve((np.maximum(at / 2, 1), shares), end) + 1e-9
    assert -1e-9 <= area <= float(s.best_at(curve, end)) + 1e-9


def test_area_of_the_best_plan():
    assert s.area_under_curve((np.array([1.0]), np.array([1.0])), 1000) == pytest.approx(1)
    assert s.area_under_curve((np.array([0.1]), np.array([1.0])), 10, 0.01) == pytest.approx(2 / 3)
    assert s.area_under_curve((np.array([0.001]), np.array([1.0])), 10, 0.01) == pytest.approx(1)
    assert s.area_under_curve((np.array([1.0, 2.0]), np.array([0.5, 0.7])), 1) == 0.5


def test_mean_curve():
    grid = np.array([1, 10, 100])
    one, other = (np.array([1.0, 50.0]), np.array([0.2, 0.8])), (np.array([10.0]), np.array([1.0]))
    assert s.mean_curve([one, other], grid).tolist() == pytest.approx([0.1, 0.6, 0.9])
    with pytest.raises(LeaderboardError, match="at least one curve"):
        s.mean_curve([], grid)
