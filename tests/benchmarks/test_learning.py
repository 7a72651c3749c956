"""The learning campaign: which runs there are, how they are limited, and the statistics of their records."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from benchmarks import proofs
from benchmarks.learning import __main__ as campaign
from benchmarks.learning import ablations, egrl, games, runs, statistics, steps, xla
from benchmarks.learning.curves import Panel, draw, grid_to
from benchmarks.learning.statistics import Shares
from benchmarks.ledger import Ledger, Record
from memplace_agents.egrl.egrl_config import CONFIGS
from memplace_env.envs.registration import Formulation
from memplace_env.leaderboard.pinned import task_of
from memplace_env.leaderboard.suite import best_known
from memplace_env.placement.simulator import evaluate_plan

GAME, MAP = games.GAMES[0], egrl.IDS[0]
OTHERS = ("Train", "Validation", "Test", "Synthetic", "Tiny", "Sliced", "Event")
BASE_PS = 10**12


def record(run: Record, gain: float, **fields: Any) -> Record:
    """Return a record of a plan with a share of the best known gain, of seed + 1 seconds and 100 plans."""
    env_id = run["id"]
    best = BASE_PS / best_known()[env_id].best_ps
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
    known = best_known()
    faster = {
        name: row.__class__(0, round(BASE_PS / (1.1 + i % 5 / 10)), 0) for i, (name, row) in enumerate(known.items())
    }
    monkeypatch.setattr(statistics, "best_known", lambda: faster)
    monkeypatch.setattr(games, "best_known", lambda: faster)
    monkeypatch.setitem(globals(), "best_known", lambda: faster)


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


def test_the_first_games_of_the_long_part_are_those_of_the_short_one() -> None:
    assert xla.GAMES[:12] == games.GAMES
    assert len(set(xla.GAMES)) == 52


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
    records.append(record(runs.limited(games.GAMES[1], "muzero", 0, plans=5), 0.5))
    with pytest.raises(ValueError, match="equally many"):
        Shares.of(records, games.GAMES[:2], "muzero", plans=5)
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


def test_a_difference_is_told_with_its_interval() -> None:
    better, worse = shares_of([[0.9, 0.8], [0.7, 0.8]], (GAME, MAP)), shares_of([[0.4, 0.9], [0.4, 0.9]], (GAME, MAP))
    assert statistics.difference(better, worse) == "+15.0 [-10.0, +45.0]"
    assert statistics.ahead(better, worse) == 1
    assert shares_of([[0.5]], (GAME,)).cell() == "50.0"
    assert Shares.best(better, worse).values == pytest.approx(np.array([[90, 90], [70, 90]]))


def test_curves_hold_the_last_plan() -> None:
    """The second seed took twice as long for the same work: its curve has the first one's seconds."""
    settings = [
        runs.limited(env_id, "plan-gradient", seed, seconds=60) for env_id in games.GAMES[:2] for seed in range(3)
    ]
    records = [record(run, 0.2 + 0.1 * run["seed"]) for run in settings]
    grid = np.array([4.0, 5.0, 10.0, 10.5, 20.0, 60.0])
    found = statistics.curves(records, games.GAMES[:2], "plan-gradient", grid, seconds=60)
    assert found.shape == (3, 6)
    assert found[0] == pytest.approx(np.array([np.nan, np.nan, 0, 0, 20, 20]), nan_ok=True)
    assert found[1] == pytest.approx(np.array([np.nan, 0, 0, 30, 30, 30]), nan_ok=True)
    assert games.Shares.of(records, games.GAMES[:2], "plan-gradient", seconds=60).seconds[:, 0].tolist() == [1, 2, 3]


@pytest.mark.parametrize(("times_best", "kept"), [(10.0, True), (0.1, False)])
def test_a_plan_is_kept_that_is_faster_than_the_best_known(
    times_best: float, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = best_known()[MAP]
    monkeypatch.setattr(runs, "best_known", lambda: {MAP: replace(known, best_ps=round(times_best * known.best_ps))})
    monkeypatch.setattr(proofs, "PLANS", tmp_path / "plans")
    measured = runs.measure({**runs.limited(MAP, "native:native"), "budget": 1})
    plan = proofs.kept_plan(MAP)
    assert (plan is not None) == kept
    if plan is not None:
        assert evaluate_plan(task_of(MAP), plan).latency_ps == measured["latency_ps"]


@pytest.mark.parametrize("part", campaign.PARTS.values(), ids=campaign.PARTS)
def test_every_part_shows_its_records(part: Any) -> None:
    """Two seeds are enough, as in an incomplete campaign; seeds come one after the other, and nothing is run twice."""
    records: list[Record] = []
    for _ in range(2):
        settings = part.runs(2, records)
        records = [record(run, 0.4 + 0.1 * run["seed"] + 0.2 * (run["solver"] == "plan-gradient")) for run in settings]
    keys = [tuple(run.get(field) for field in runs.SETTING) for run in settings]
    assert len(set(keys)) == len(keys)
    shown = part.show(records)
    for content in shown.tables.values():
        lines = content.splitlines()
        assert len({line.count("|") for line in lines}) == 1
        assert 3 <= len(lines) <= 12
    for file in shown.data.values():
        assert {len(row) for row in file.rows} == {len(file.heads)}
    assert all(picture.startswith(b"\x89PNG") for picture in shown.pictures.values())


def test_tables_count_where_an_agent_is_ahead() -> None:
    levels = {"plan-gradient": 0.99, "muzero": 0.5, games.SEARCH: 0.9, "exact": 1.0}
    records = [record(run, levels.get(run["solver"], 0.1)) for run in games.runs(2)]
    rows = {
        line.split(" | ")[0]: line.split(" | ")[1:5] for line in games.table(games.all_shares(records)).splitlines()
    }
    assert rows["| plan-gradient"] == ["99.0 [99.0, 99.0]", "99.0", "12 of 12", "12"]
    assert rows["| MuZero"] == ["50.0 [50.0, 50.0]", "50.0", "0 of 12", "0"]
    assert rows["| best rule"][:2] == ["10.0 [10.0, 10.0]", "10.0"]


def test_better_and_worse_games_are_counted() -> None:
    base, n = np.ones(52), np.arange(52)
    learner = np.where(n < 30, 1.1, np.where(n < 40, 1.0, 0.9))
    row = xla.table({xla.LEARNER: learner, "a rule": base}).splitlines()[-1]
    mean = (30 * 10 - 12 * 10) / 52
    assert row.split(" | ")[1:5] == ["30", "10", "12", f"{mean:+.2f} %"]


def test_egrls_parts_and_halves_are_its_named_settings() -> None:
    assert {solver.partition(":")[2] or "default" for solver in ablations.SOLVERS} <= set(CONFIGS)
    assert set(steps.MAPS) == {"ResNet50", "ResNet101", "BERT"}


def test_other_maps_have_a_row_once_all_are_recorded() -> None:
    records = [record(run, 0.25 * (run["seed"] + 1)) for run in steps.runs(2)]
    rows = steps.table(records).splitlines()
    assert rows[-1].startswith("| 12 ids, one seed | 25.0 in 1.0 s | 25.0 "), "BERT's second seed does not count"
    for solver in ("plan-gradient", "exact"):
        short = [each for each in records if (each["id"], each["solver"]) != (steps.IDS[0], solver)]
        assert steps.table(short).splitlines() == rows[:-1]


def test_other_searches_get_egrls_seconds() -> None:
    first = egrl.runs(2)
    assert not any("seconds" in run for run in first if run["solver"] in egrl.OTHERS)
    records = [record(run, 0.5, took_s=3.0 + run["seed"]) for run in first]
    equal = [run for run in egrl.runs(2, records) if run["solver"] in egrl.OTHERS and "seconds" in run]
    assert [(run["id"], run["solver"], run["seed"], run["seconds"]) for run in equal] == [
        (env_id, solver, seed, 4.0) for env_id in egrl.PROGRAMS for solver in egrl.OTHERS for seed in range(2)
    ]


def test_a_picture_has_at_most_seven_lines() -> None:
    grid = grid_to(10)
    panel = Panel("many", "s", grid, {"a": np.ones((2, len(grid)))}, {str(level): level for level in range(7)})
    with pytest.raises(ValueError, match="more than 7"):
        draw([panel])


def test_the_hash_of_code_forgets_words_and_what_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "AGENTS", tmp_path)
    files = {name: tmp_path / f"{name}.py" for name in ("egrl/search", "learning/rates", "learning/other", "game/play")}
    for path in files.values():
        path.parent.mkdir(exist_ok=True)
        path.write_text("X = 1\n")
    for package, lines in {
        "egrl": ["search import EGRL", "late import Z"],
        "learning": ["rates import X", "other import Y"],
    }.items():
        text = "".join(f"from memplace_agents.{package}.{line}\n" for line in lines)
        (tmp_path / package / "__init__.py").write_text(text)
    code_of = runs.code_of.__wrapped__
    files["egrl/search"].write_text('"""Text."""\nfrom memplace_agents.learning import X\n')
    before = code_of("egrl")
    files["egrl/search"].write_text("# other words\nfrom memplace_agents.learning import X\n")
    for name in ("game/play", "learning/other"):
        files[name].write_text("X = 2\n")
    assert code_of("egrl:paper") == before
    files["learning/rates"].write_text("X = 2\n")
    assert code_of("egrl") != before


def test_processor_seconds_become_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "TRIAL_S", 0.1)
    monkeypatch.setattr(runs, "OVERRUN", 100.0)  # so that no machine stops it, however unsteady it is
    run = runs.limited("MemPlace-Tiny-v0", "local-search", seed=1, seconds=0.2)
    path = tmp_path / "learning.jsonl"
    with ThreadPoolExecutor(1) as pool:
        (found,) = runs.complete(Ledger(path, runs.FIELDS), [dict(run)], pool)
        again = runs.complete(Ledger(path, runs.FIELDS), [dict(run)], pool)
        (later,) = runs.complete(Ledger(path, runs.FIELDS), [{**run, "code": "other"}], pool)
    assert again == [found]
    assert found["evaluations"] == found["budget"]
    assert found["took_s"] >= 0.18
    with ThreadPoolExecutor(1) as pool:  # the first seed's work, even on a machine that a trial would call slow
        monkeypatch.setattr(runs, "OVERRUN", 1e-9)
        (other,) = runs.complete(Ledger(path, runs.FIELDS), [{**run, "seed": 2}], pool)
    assert other["budget"] == other["evaluations"] == found["budget"]
    assert found["curve"][-1][1] == found["evaluations"]
    assert later["code"] == "other"
    assert len(path.read_text().splitlines()) == 5
    assert Ledger(path, runs.SETTING).of([run]) == [later]


def test_a_run_slower_than_its_trial_is_stopped() -> None:
    endless = 10**6
    run = runs.limited("MemPlace-Tiny-v0", "local-search", seed=1, seconds=0.1)
    found = runs.measure({**run, "guess": endless})
    assert found["budget"] == found["evaluations"] < found["guess"] == endless


def test_other_seeds_do_what_the_first_did_before_it_was_stopped(tmp_path: Path) -> None:
    run = runs.limited("MemPlace-Tiny-v0", "local-search", seed=0, seconds=60)
    ledger = Ledger(tmp_path / "learning.jsonl", runs.FIELDS)
    ledger.add({**run, "code": "other", "budget": 7, "evaluations": 7})
    ledger.add({**run, "budget": 500, "evaluations": 300, "took_s": 66.0})
    with ThreadPoolExecutor(1) as pool:
        (other,) = runs.complete(ledger, [{**run, "seed": 1}], pool)
    assert other["budget"] == other["evaluations"] == 300


def test_a_line_through_the_later_points_of_a_trial() -> None:
    """The first seconds went into other work, so that the mean speed is not that of the search."""
    points = [(2.0, 0, 1.0), *((2.0 + 0.5 * i, 50 * i, 1.0) for i in range(1, 9))]
    assert runs.Trial.of(points).budget(60.0) == 100 * 58
    assert runs.Trial.of([(6.0, 30, 1.0)]).budget(60.0) == 300
