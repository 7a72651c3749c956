"""The autotuner of XLA's options: what it draws, how it halves, and that it never falls behind the public sets."""

from dataclasses import asdict
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.xla_autotune import XlaAutotune, changed, halving, space_of
from memplace_agents.xla_msa import PUBLIC_SETS, MsaOptions, assign
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import random_dag

SPACE = space_of(2**20)


def crowded(seed=3):
    return MallocGameEnv(random_dag(seed, ops=20, largest=60_000_000), "tpu-v4i")


def played(search, latency_of):
    """The options that a search tries, and what it returns."""
    tried, options = [], next(search)
    while True:
        tried.append(options)
        try:
            options = search.send(latency_of(options))
        except StopIteration as end:
            return tried, end.value


@given(st.integers(0, 2**32), st.floats(0, 1))
def test_what_is_drawn_makes_sense_and_differs(seed, share):
    options = changed(MsaOptions(), SPACE, np.random.default_rng(seed), share)
    assert isinstance(options, MsaOptions)
    assert options.reserved_bytes == 0


def test_every_option_but_the_reserve_is_searched():
    assert SPACE.keys() == asdict(MsaOptions()).keys() - {"reserved_bytes"}
    rng = np.random.default_rng(0)
    for name, draw in SPACE.items():
        assert len({draw(rng) for _ in range(50)}) > 1, name


def test_halving_gives_the_better_half_twice_the_tries():
    rng = np.random.default_rng(0)
    options = [MsaOptions(max_repacks=repacks) for repacks in (7, 5, 3, 1)]

    def latency_of(each):
        return 100 + each.max_repacks if each in options else 1000

    tried, best = played(halving(options, SPACE, rng), latency_of)
    assert len(tried) == 4 + 2 * 1 + 1 * 2
    assert best == (101, options[-1])


def test_what_is_better_is_kept():
    def latency_of(each):
        return round(1000 * abs(each.preferred_overlap_ratio - 4))

    tried, best = played(halving([MsaOptions()] * 16, SPACE, np.random.default_rng(0)), latency_of)
    assert best.latency_ps == min(map(latency_of, tried)) == latency_of(best.options)
    assert best.latency_ps < latency_of(MsaOptions())


def test_the_public_sets_come_first_and_something_better_is_found():
    env = crowded()
    public = [evaluate_plan(env.task, assign(env.task, each.options)).latency_s for each in PUBLIC_SETS]
    reports = []
    solution = XlaAutotune().solve(env, budget=60, callback=reports.append)
    assert [progress.latency_s for progress in islice(reports, 2)] == [public[0], min(public)]
    assert solution.report.latency_s < min(public)
    assert solution.evaluations == len(reports) == 60


@pytest.mark.parametrize("budget", [2, 40])
def test_a_short_search_is_the_beginning_of_a_long_one(budget):
    short, long = (XlaAutotune().solve(crowded(), budget=each, seed=5) for each in (budget, 60))
    begin = [(p.evaluations, p.latency_s) for p in long.history if p.evaluations <= budget]
    assert [(p.evaluations, p.latency_s) for p in short.history] == begin
    assert short.evaluations == budget
