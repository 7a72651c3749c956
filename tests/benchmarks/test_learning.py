"""The learning campaign: which runs there are, how they are limited, and the statistics of their records."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from benchmarks.experiments import egrl, learning
from benchmarks.experiments import learning_runs as runs
from benchmarks.experiments import learning_statistics as statistics
from benchmarks.experiments.learning_statistics import Shares
from benchmarks.ledger import Record
from memplace_env.envs.best_known import known_results
from memplace_env.envs.registration import Formulation

GAME, MAP = learning.GAMES[0], learning.IDS[0]
OTHERS = ("Train", "Validation", "Test", "Synthetic", "Tiny", "Sliced", "Event", "Compiled")
BASE_PS = 10**12


def record(run: Record, gain: float, **fields: Any) -> Record:
    """Return a record of a plan with a share of the best known gain, of seed + 1 seconds and 100 plans."""
    env_id = run["id"]
    best = BASE_PS / known_results()[env_id].best_ps
    game = env_id.startswith("MallocGame")
    saved = gain * (1 - 1 / best) if game else gain * (best - 1)
    latency = BASE_PS * (1 - saved) if game else BASE_PS / (1 + saved)
    where = {"commit": "c", "date": "2026-01-01", "proven": False, "peak_mb": 9}
    curve = [[10.0, 50, 1.0], [run["seed"] + 20.0, 100, BASE_PS / latency]]
    spent = {"took_s": run["seed"] + 1.0, "evaluations": 100}
    return {**run, "latency_ps": latency, "baseline_ps": BASE_PS, "curve": curve, **spent, **where, **fields}


@pytest.fixture(autouse=True)
def _baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all best known plans be 1.1 to 1.5 times as fast as the baseline of `record`."""
    known = known_results()
    faster = {
        name: row.__class__(0, round(BASE_PS / (1.1 + i % 5 / 10)), 0) for i, (name, row) in enumerate(known.items())
    }
    monkeypatch.setattr(statistics, "known_results", lambda: faster)
    monkeypatch.setitem(globals(), "known_results", lambda: faster)


@pytest.mark.parametrize("formulation", [Formulation.GAME, Formulation.ONE_SHOT])
def test_the_first_ids_are_in_the_order_of_their_hashes(formulation: Formulation) -> None:
    prefix = f"{formulation.traits.prefix}-"
    every = [env_id for env_id in gym.registry if env_id.startswith(prefix) and env_id != f"{prefix}v0"]
    plain = [env_id for env_id in every if not any(f"-{word}-" in env_id for word in OTHERS)]
    hashes = {sha256(env_id.encode()).hexdigest(): env_id for env_id in plain}
    expected = [hashes[key] for key in sorted(hashes)]
    assert runs.first_ids(formulation, 1000) == expected
    assert runs.first_ids(formulation, 12) == expected[:12]
    assert len(expected) == {Formulation.GAME: 105, Formulation.ONE_SHOT: 54}[formulation]


def test_shares_are_of_the_environments_return() -> None:
    rng = np.random.default_rng(0)
    for env_id, value in ((GAME, 0.3), (MAP, 0.7), (MAP, -0.2)):
        run = record(runs.limited(env_id, "exact", seconds=60), value)
        assert statistics.share(run) == pytest.approx(100 * value)
    assert statistics.gain(GAME, 1.25) == pytest.approx(0.2)
    assert statistics.gain(MAP, 1.25) == pytest.approx(0.25)
    values = rng.random((3, 2))
    found = shares_of(values, (GAME, MAP))
    assert found.values == pytest.approx(100 * values)
    assert found.seconds.tolist() == [[1, 1], [2, 2], [3, 3]]
    assert found.of_instances == pytest.approx(100 * values.mean(axis=0))


def shares_of(values: Any, ids: tuple[str, ...], solver: str = "egrl") -> Shares:
    """Return the shares of records with these fractions, float[seeds, ids], in any order."""
    records = [
        record(runs.limited(env_id, solver, seed, plans=100), values[seed][column])
        for column, env_id in enumerate(ids)
        for seed in reversed(range(len(values)))
    ]
    return Shares.of(records, ids, solver, plans=100)


def test_a_seed_without_one_of_the_instances_is_an_error() -> None:
    records = [record(runs.limited(GAME, "muzero", seed, plans=5), 0.5) for seed in range(2)]
    records.append(record(runs.limited(learning.GAMES[1], "muzero", 0, plans=5), 0.5))
    with pytest.raises(ValueError, match="equally many"):
        Shares.of(records, learning.GAMES[:2], "muzero", plans=5)
    with pytest.raises(ValueError, match=r"\[0\]"):
        Shares.of(records, (GAME,), "muzero", plans=6)


def test_the_interval_of_a_difference_is_that_of_plain_loops() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(1.0, 0.5, (5, 12)), rng.normal(0.0, 1.5, (4, 12))
    draws, differences = np.random.default_rng(0), []
    instances = draws.integers(12, size=(2000, 1, 12))
    picks = [draws.integers(len(scores), size=(2000, *scores.shape)) for scores in (x, y)]
    for resample in range(2000):
        means = []
        for scores, picked in zip((x, y), picks, strict=True):
            drawn = [
                scores[picked[resample, seed, place], instances[resample, 0, place]]
                for seed in range(len(scores))
                for place in range(12)
            ]
            means.append(sum(drawn) / len(drawn))
        differences.append(means[0] - means[1])
    expected = np.quantile(differences, [0.025, 0.975])
    assert statistics.interval(statistics.mean_difference, x, y) == pytest.approx(tuple(expected))
    assert statistics.interval(statistics.mean_difference, x[:1, :1], y[:1, :1]) is None


def test_other_searches_get_egrls_seconds() -> None:
    first = egrl.runs([])
    assert not any("seconds" in run for run in first if run["solver"] in egrl.OTHERS)
    records = [record(run, 0.5, took_s=2.0 + run["seed"]) for run in first]
    equal = [run for run in egrl.runs(records) if run["solver"] in egrl.OTHERS and "seconds" in run]
    assert [(run["id"], run["solver"], run["seed"], run["seconds"]) for run in equal] == [
        (env_id, solver, seed, 4.0) for env_id in egrl.PROGRAMS for solver in egrl.OTHERS for seed in range(5)
    ]


def test_a_run_slower_than_its_trial_is_stopped() -> None:
    endless = 10**6
    run = runs.limited("MemPlace-Tiny-v0", "local-search", seed=1, seconds=0.1)
    found = runs.measure({**run, "guess": endless})
    assert found["budget"] == found["evaluations"] < found["guess"] == endless


def test_a_line_through_the_later_points_of_a_trial() -> None:
    """The first seconds went into other work, so that the mean speed is not that of the search."""
    points = [(2.0, 0, 1.0), *((2.0 + 0.5 * i, 50 * i, 1.0) for i in range(1, 9))]
    assert runs.Trial.of(points).budget(60.0) == 100 * 58
    assert runs.Trial.of([(6.0, 30, 1.0)]).budget(60.0) == 300


def test_processor_seconds_become_a_budget() -> None:
    """A trial gives the first seed's budget, and that one the other seeds'."""
    wanted = [runs.limited("MemPlace-Tiny-v0", "local-search", seed, seconds=60.0) for seed in range(3)]
    settings, records = runs.staged(lambda records: wanted), list[Record]()
    assert settings(records) == [{"id": "MemPlace-Tiny-v0", "solver": "local-search", "trial": runs.TRIAL_S}]
    records += [{**settings(records)[0], "line": [100.0, 6.0, 400]}]
    (first,) = settings(records)
    assert first == {**wanted[0], "guess": runs.Trial(100.0, 6.0, 400).budget(60.0)}
    records += [{**first, "budget": 5000, "evaluations": 4000}]
    assert settings(records) == [{**run, "budget": 4000} for run in wanted]
