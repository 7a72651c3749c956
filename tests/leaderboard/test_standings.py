"""From submissions to rows: what counts, who stands where, and that nothing depends on the order."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env._lib.errors import LeaderboardError
from memplace_env.envs.registration import Formulation
from memplace_env.leaderboard.cells import cells
from memplace_env.leaderboard.entry import Entry, Point
from memplace_env.leaderboard.leaderboard_tables import markdown
from memplace_env.leaderboard.scores import share
from memplace_env.leaderboard.standings import standings
from memplace_env.leaderboard.submission import Meta, Submission, Training
from memplace_env.leaderboard.suite import LEAST_GAIN, Budget, Instance, Known, Suite, Track

MAPS, GAME = Formulation.ONE_SHOT, Formulation.GAME
IDS = ("MemPlace-A-v0", "MemPlace-B-v0", "MemPlace-Flat-v0", "MallocGame-A-v0")
BASELINE, BEST, BOUND = 1000, 500, 490
FLAT = "MemPlace-Flat-v0"
KNOWN = {each: Known(600, BEST, BOUND) for each in IDS} | {FLAT: Known(990, 980, 980)}
TRACKS = {
    "search": Track("search", "Search.", tuple(map(Budget, ("10", "100", "1s", "10s")))),
    "zero-shot": Track("zero-shot", "Zero-shot.", tuple(map(Budget, ("1", "10")))),
    "black-box": Track("black-box", "Measured.", (Budget("20"),), noise=0.02),
}


def instance(env_id):
    kind = MAPS if env_id.startswith("MemPlace") else GAME
    return Instance(env_id, kind, "A", "nnp-i", "A", "train", 9, "", "", "", BASELINE)


SUITE = Suite("tiny-v1", "Tiny.", 2, TRACKS, {each: instance(each) for each in IDS}, "")


def run(env_id, budget, seed, points, seconds=0.5):
    curve = tuple(Point(at, at / 100, latency) for at, latency in points)
    return Entry(env_id, budget, seed, None, curve[-1].latency_ps, curve[-1].evaluations, seconds, curve)


def submission(name, points, *, budgets=("10",), seeds=(0, 1), track="search", formulations=(MAPS,), **meta):
    """`points(env_id, budget, seed)`, or the same for all."""
    fields = {"agent": name, "memplace": "1", **meta}
    said = Meta(
        name,
        suite="tiny-v1",
        suite_sha256="",
        track=track,
        formulations=formulations,
        budgets=budgets,
        seeds=seeds,
        **fields,
    )
    made = points if callable(points) else lambda *_: points
    entries = [
        run(each, budget, seed, made(each, budget, seed))
        for budget in budgets
        for each in SUITE.played(TRACKS[track], formulations)
        for seed in seeds
    ]
    return Submission(said, tuple(entries))


def native(track="search", **changes):
    return submission("native", [(1, 1000)], budgets=("own",), seeds=(0,), track=track, **changes)


def greedy(track="search", **changes):
    points, fields = [(1, 800), (10, 625)], {"agent": "density-greedy", **changes}
    return submission("greedy", points, budgets=("own",), seeds=(0,), track=track, **fields)


def table(*submissions, known=KNOWN, suite=SUITE, resamples=100):
    baselines = dict.fromkeys(suite.tracks, dict.fromkeys(IDS, BASELINE))
    return standings(
        suite, submissions, baselines=baselines, known=dict.fromkeys(suite.tracks, known), resamples=resamples
    )


def of(rows, name, budget="10"):
    (row,) = [row for row in rows if row.submission == name and row.budget == budget]
    return row


def test_figures_of_a_row_by_hand():
    """Shares 1 and 0.6 on each of two instances; the third has 2 % to gain and does not count."""
    row = of(table(submission("s", lambda e, b, seed: [(2, 800), (10, (500, 625)[seed])]), native(), greedy()), "s")
    assert (row.instances, row.played, row.left_out, row.runs) == (2, 3, (FLAT,), 2)
    assert row.share == row.mean == pytest.approx(0.8)
    assert 0.6 <= row.low < row.share < row.high <= 1
    assert row.solved == 0
    assert row.gap == pytest.approx((500 / 490 * 625 / 490) ** 0.5 - 1)
    assert row.area == pytest.approx(0.25 * (1 - np.log10(2)))
    assert row.cheap == "greedy"
    assert row.improvement == pytest.approx(0.75)
    assert (row.evaluations, row.seconds) == (10, 0.5)


def test_reaching_the_bound_is_solving():
    known = KNOWN | {"MemPlace-A-v0": Known(600, 500, 500)}
    assert of(table(submission("s", [(1, 500)]), known=known), "s").solved == 0.5


def test_without_bounds_there_is_no_gap():
    known = {each: Known(600, 500, 0) for each in IDS}
    row = of(table(submission("s", [(1, 500)]), known=known), "s")
    assert row.gap is None
    assert row.solved is None
    assert row.share == pytest.approx(1)


def test_the_baseline_is_free():
    row = of(table(submission("s", [(1, 5000)]), native()), "s")
    assert row.share == row.mean == row.area == 0
    assert row.improvement == 0.5
    assert row.gap == pytest.approx(1000 / 490 - 1)


def test_one_seed_has_no_interval():
    row = of(table(submission("s", [(1, 700)], seeds=(0,)), native()), "s")
    assert (row.runs, row.low, row.high) == (1, None, None)
    assert row.improvement == 1
    assert row.improvement_low is None


def test_cheap_rows_and_exact_stand_at_every_budget():
    rows = table(
        native(),
        greedy(),
        submission("exact", [(3, 500)], budgets=("1s", "10s"), seeds=(0,)),
        submission("local", [(5, 600)], budgets=("10", "100")),
    )
    assert [(r.budget, r.submission, r.played_budget, r.is_reference) for r in rows] == [
        ("10", "local", "10", False),
        ("10", "exact", "10s", True),
        ("10", "greedy", "own", True),
        ("10", "native", "own", True),
        ("100", "local", "100", False),
        ("100", "exact", "10s", True),
        ("100", "greedy", "own", True),
        ("100", "native", "own", True),
        ("1s", "exact", "1s", False),
        ("1s", "greedy", "own", True),
        ("1s", "native", "own", True),
        ("10s", "exact", "10s", False),
        ("10s", "greedy", "own", True),
        ("10s", "native", "own", True),
    ]
    assert all((row.area is None) == row.is_reference for row in rows)
    assert {row.budget for row in table(native(), greedy())} == {"own"}


def test_only_rules_of_ours_are_cheap():
    """Whoever says that a single plan was enough may have searched before."""
    searching = submission("searching", [(11, 500)], budgets=("own",))
    trained = submission("trained", [(1, 500)], budgets=("own",), training=Training((), 5, 1.0))
    lucky = submission("lucky", [(1, 500)], budgets=("own",))
    assert {row.cheap for row in table(searching, trained, lucky, native(), greedy())} == {"greedy"}
    assert {row.cheap for row in table(searching)} == {None}


def test_tracks_and_formulations_are_never_mixed():
    both = submission("s", lambda e, *_: [(1, 500 if e.startswith("Malloc") else 700)], formulations=(MAPS, GAME))
    rows = table(submission("t", [(1, 600)], track="black-box", budgets=("20",)), both, native())
    assert [(row.track, row.formulation, row.submission, row.played) for row in rows] == [
        ("search", GAME, "s", 1),
        ("search", MAPS, "s", 3),
        ("search", MAPS, "native", 3),
        ("black-box", MAPS, "t", 3),
    ]
    assert rows[0].cheap is None
    assert rows[0].share == pytest.approx(1)


def test_nothing_counts_nothing_shown():
    assert table(native(), known=dict.fromkeys(IDS, Known(1000, 990, 990))) == []


LATENCIES = st.integers(400, 1100)


@settings(max_examples=25)
@given(st.lists(st.lists(LATENCIES, min_size=6, max_size=6), min_size=1, max_size=3), st.randoms())
def test_order_does_not_matter(latencies, shuffler: random.Random):
    made = [native(), greedy()] + [
        submission(f"s{number}", lambda e, b, seed, own=own: [(3, own[2 * IDS.index(e) + seed])])
        for number, own in enumerate(latencies)
    ]
    rows = table(*made)
    for each in made:
        shuffler.shuffle(entries := list(each.entries))
        made[made.index(each)] = replace(each, entries=tuple(entries))
    shuffler.shuffle(made)
    assert table(*made) == rows
    strength = [(not row.is_reference, row.share) for row in rows]
    assert strength == sorted(strength, reverse=True)


@given(st.lists(LATENCIES, min_size=6, max_size=6))
def test_rows_are_means_of_the_cells(latencies):
    one = submission("s", lambda e, b, seed: [(3, latencies[2 * IDS.index(e) + seed])])
    found = cells(SUITE, [one], baselines={"search": dict.fromkeys(IDS, BASELINE)}, known={"search": KNOWN})
    assert [cell.env_id for cell in found] == list(IDS[:3])
    best = [KNOWN[env_id].best_ps for env_id in np.repeat(IDS[:3], 2)]
    assert [value for cell in found for value in cell.shares] == share(latencies, BASELINE, best, LEAST_GAIN).tolist()
    counting = [cell for cell in found if cell.counts]
    row = of(table(one), "s")
    assert row.mean == pytest.approx(np.mean([cell.shares for cell in counting]))
    assert row.area == pytest.approx(np.mean([cell.areas for cell in counting]))
    assert row.solved == pytest.approx(np.mean([cell.solved for cell in counting]))


def trained(latency, plans=9000):
    return submission(
        "net", [(1, latency)], track="zero-shot", budgets=("1",), training=Training(("MemPlace-Z-v0",), plans, 60.0)
    )


def test_break_even_against_the_best_search():
    """Search has share 0.6 after 40 plans; the net has it after one: 39 plans saved a program."""
    search = submission("local", [(1, 800), (40, 625), (90, 500)], budgets=("100",))
    slow = submission("slow", [(95, 625)], budgets=("100",))
    measured = submission("measured", [(2, 500)], track="black-box", budgets=("20",))
    rows = table(trained(625), search, slow, measured, native("zero-shot"))
    assert of(rows, "net", "1").break_even == pytest.approx(9000 / 39)
    assert of(rows, "net", "1").training_plans == 9000
    assert of(rows, "local", "100").break_even is None
    other = submission("other", [(2, 500)], training=Training((), 1, 1.0))
    assert of(table(trained(625), search, other), "net", "1").break_even == pytest.approx(9000 / 39), "it was trained"


def test_search_that_never_gets_there_is_taken_at_its_largest_budget():
    search = submission("local", [(1, 800), (40, 625)], budgets=("10", "100"))
    assert of(table(trained(500), search), "net", "1").break_even == pytest.approx(9000 / 99)


def test_training_never_breaks_even():
    search = submission("local", [(1, 800), (40, 500)], budgets=("100",))
    assert of(table(trained(800), search), "net", "1").break_even is None, "search is there with its first plan"
    assert of(table(trained(625), search, greedy("zero-shot")), "net", "1").break_even is None, "a cheap row is as good"
    assert of(table(trained(600), search, greedy("zero-shot")), "net", "1").break_even == pytest.approx(9000 / 39)
    assert of(table(trained(500)), "net", "1").break_even is None, "nothing to compare with"


def test_bad_submissions_are_refused():
    good = submission("s", [(1, 700)])
    with pytest.raises(LeaderboardError, match="two submissions named 's'"):
        table(good, good)
    with pytest.raises(LeaderboardError, match="to suite 'other'"):
        table(replace(good, meta=replace(good.meta, suite="other")))
    with pytest.raises(LeaderboardError, match="no run of MemPlace-B-v0 at budget 10 with seed 1"):
        table(replace(good, entries=tuple(e for e in good.entries if (e.env_id, e.seed) != ("MemPlace-B-v0", 1))))
    with pytest.raises(LeaderboardError, match="MemPlace-A-v0 has no known baseline or best plan"):
        table(good, known={})
    with pytest.raises(LeaderboardError, match="no track"):
        table(replace(good, meta=replace(good.meta, track="sprint")))


def test_markdown_and_json():
    rows = table(
        native(),
        greedy(),
        submission("a|b <i>", [(2, 600)]),
        trained(500),
        native("zero-shot"),
        submission("exact", [(1, 500)], budgets=("10s",), seeds=(0,)),
    )
    text = markdown(rows, SUITE)
    search, zero_shot = text.split("### ")[1:]
    assert search.startswith("tiny-v1, search, one-shot")
    lines = [line for line in search.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + sum(row.track == "search" for row in rows)
    assert len({line.count("|") for line in lines}) == 1
    assert "a&#124;b &lt;i&gt;" in search
    assert "*exact (10s)*" in search
    assert "P(better than greedy)" in search
    assert "2 of 3 instances count" in search
    assert FLAT in search
    assert "reak-even" not in search
    assert "| 1,000 programs |" in zero_shot
    assert "| never |" in markdown(table(trained(500)), SUITE)
    assert "No instance" in markdown([], SUITE)
