"""From submissions to rows: what counts, who stands where, and that nothing depends on the order."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import LeaderboardError
from memplace_env.envs.best_known import Known
from memplace_env.envs.registration import Formulation
from memplace_leaderboard.cells import cells
from memplace_leaderboard.entry import Entry, Point
from memplace_leaderboard.leaderboard_tables import Remarks, markdown
from memplace_leaderboard.rerun_record import RerunRecord
from memplace_leaderboard.scores import share
from memplace_leaderboard.standings import standings
from memplace_leaderboard.submission import Meta, Standing, Submission, Training
from memplace_leaderboard.suite import LEAST_GAIN, Budget, Instance, Suite, Track
from tests.thorough import examples

MAPS, GAME = Formulation.ONE_SHOT, Formulation.GAME
IDS = ("MemPlace-A-v0", "MemPlace-B-v0", "MemPlace-Flat-v0", "MallocGame-A-v0")
BASELINE, BEST, BOUND = 1000, 500, 490
FLAT = "MemPlace-Flat-v0"
KNOWN = {each: Known(600, BEST, BOUND) for each in IDS} | {FLAT: Known(990, 980, 980)}
TRACKS = {
    "search": Track("search", "Search.", tuple(map(Budget, ("10", "100", "1s", "10s")))),
    "zero-shot": Track("zero-shot", "Zero-shot.", tuple(map(Budget, ("1", "10")))),
    "black-box": Track("black-box", "Measured.", (Budget("20"),), noise=0.02, machine="factors"),
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


def again(submission, *budgets):
    """The submission as it is with a record of its rerun."""
    record = RerunRecord("", "", "", "", budgets, 1, "equal", None, 0.0, "2026-01-31", "1", "a machine")
    return replace(submission, rerun=record)


def native(track="search", **changes):
    row = submission("native", [(1, 1000)], budgets=("own",), seeds=(0,), track=track, **changes)
    return replace(row, computed=True)


def greedy(track="search", **changes):
    points, fields = [(1, 800), (10, 625)], {"agent": "density-greedy", **changes}
    return replace(submission("greedy", points, budgets=("own",), seeds=(0,), track=track, **fields), computed=True)


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
    assert row.share == row.iqm == pytest.approx(0.8)
    assert row.optimality_gap == pytest.approx(0.2)
    assert 0.6 <= row.low < row.share < row.high <= 1
    assert row.solved == 0
    assert row.gap == pytest.approx((500 / 490 * 625 / 490) ** 0.5 - 1)
    assert row.area == pytest.approx(0.25 * (1 - np.log10(2)))
    assert row.cheap == "greedy"
    assert row.improvement == pytest.approx(0.75)
    assert (row.evaluations, row.seconds, row.processor_seconds) == (10, 0.5, None)


def test_reaching_the_bound_is_solving():
    known = KNOWN | {"MemPlace-A-v0": Known(600, 500, 500)}
    assert of(table(submission("s", [(1, 500)]), known=known), "s").solved == 0.5


def test_a_bound_above_a_plan_of_any_row_counts_for_none(caplog):
    """The faster row has no gap below 0 and is not solved, and the slower one is not solved by a false bound."""
    known = KNOWN | {"MemPlace-A-v0": Known(600, 500, 501)}
    rows = table(submission("fast", [(1, 500)]), submission("slow", [(1, 501)]), known=known)
    for name in ("fast", "slow"):
        assert (of(rows, name).solved, of(rows, name).gap) == (None, None)
    assert "MemPlace-A-v0: a plan of 'fast' takes 500 ps, so that the bound of 501 ps is false" in caplog.text


def test_without_bounds_there_is_no_gap():
    known = {each: Known(600, 500, 0) for each in IDS}
    row = of(table(submission("s", [(1, 500)]), known=known), "s")
    assert row.gap is None
    assert row.solved is None
    assert row.share == pytest.approx(1)


def test_the_baseline_is_free():
    row = of(table(submission("s", [(1, 5000)]), native()), "s")
    assert row.share == row.iqm == row.area == 0
    assert row.improvement == 0.5
    assert row.gap == pytest.approx(1000 / 490 - 1)


def test_one_seed_has_an_interval_over_instances():
    """Two instances with shares of 0.6 and 1: other programs may be like either."""
    row = of(table(submission("s", lambda e, *_: [(1, 625 if "A" in e else 500)], seeds=(0,)), native()), "s")
    assert (row.runs, row.low, row.high) == (1, pytest.approx(0.6), pytest.approx(1))
    assert row.improvement == row.improvement_low == 1


def test_rows_are_ranked_by_the_mean_and_not_by_its_middle():
    """One of four instances fails: the interquartile mean does not see it."""
    ids = [f"MemPlace-{letter}-v0" for letter in "ABCD"]
    suite = replace(SUITE, instances={each: instance(each) for each in ids})

    def row(name, worst, others):
        runs = [run(each, "10", 0, [(5, worst if each == ids[0] else others)]) for each in ids]
        made = submission(name, [(5, 500)], seeds=(0,))
        return replace(made, entries=tuple(runs))

    rows = standings(
        suite,
        [row("fails-once", 1000, 500), row("steady", 510, 505)],
        baselines=dict.fromkeys(suite.tracks, dict.fromkeys(ids, BASELINE)),
        known=dict.fromkeys(suite.tracks, dict.fromkeys(ids, Known(600, BEST, BOUND))),
        resamples=50,
    )
    first, second = [row for row in rows if row.budget == "10"]
    assert (first.submission, second.submission) == ("steady", "fails-once")
    assert second.iqm == 1 > first.iqm
    assert (second.share, second.optimality_gap) == (0.75, 0.25)


def slow(submission, seconds):
    """The submission with runs of so many processor seconds."""
    entries = [replace(entry, processor_seconds=seconds) for entry in submission.entries]
    return replace(submission, entries=tuple(entries))


def test_tables_of_seconds_have_what_took_no_more_time():
    """Plans are no currency that a judge can count where costs are public; of a submission its best row is shown."""
    rows = table(
        native(),
        greedy(),
        slow(submission("exact", [(3, 500)], budgets=("1s", "10s"), seeds=(0,)), 0.7),
        submission("local", lambda e, budget, seed: [(5, 700 - int(budget))], budgets=("10", "100")),
        slow(submission("behind its back", [(1, 400)], budgets=("10",)), 5.0),
    )
    assert [(r.budget, r.submission, r.played_budget) for r in rows] == [
        ("10", "behind its back", "10"),
        ("10", "local", "10"),
        ("100", "local", "100"),
        ("1s", "exact", "1s"),
        ("1s", "local", "100"),
        ("10s", "behind its back", "10"),
        ("10s", "exact", "10s"),
        ("10s", "local", "100"),
        ("own", "greedy", "own"),
        ("own", "native", "own"),
    ]
    assert all(
        (row.area is None) == ("own" in (row.budget, row.played_budget) or row.budget != row.played_budget)
        for row in rows
    )
    assert {row.budget for row in table(native(), greedy())} == {"own"}


def test_tables_of_measurements_have_what_measured_no_more():
    measured = {"track": "black-box", "budgets": ("own",), "seeds": (0,)}
    rows = table(
        submission("search", [(20, 600)], track="black-box", budgets=("20",)),
        submission("nominal", [(900, 550)], nominal=True, **measured),
        submission("modest", [(15, 700)], **measured),
        submission("greedy one", [(21, 500)], **measured),
    )
    assert [(r.budget, r.submission) for r in rows] == [("20", "nominal"), ("20", "search"), ("20", "modest")]


def test_declared_rows_are_below_those_that_were_run_again():
    rows = table(
        submission("forged", [(1, 500)], budgets=("10",)),
        again(submission("honest", [(10, 700)], budgets=("10", "100")), "10"),
        greedy(),
    )
    assert [(r.submission, r.standing) for r in rows if r.budget == "10"] == [
        ("honest", Standing.RERUN),
        ("forged", Standing.DECLARED),
    ]
    assert of(rows, "honest", "100").standing is Standing.DECLARED, "only the budget that was run again has the tick"
    text = markdown(rows, SUITE)
    assert text.index("✓ honest") < text.index("Declared: their authors say so") < text.index("| forged |")


def test_only_what_the_board_played_is_a_rule():
    """Whoever says that a single plan was enough may have searched before, and may call itself anything."""
    searching = submission("searching", [(11, 500)], budgets=("own",))
    lucky = submission("xla-llama2-70b", [(1, 500)], budgets=("own",), agent="xla-msa")
    assert {row.cheap for row in table(searching, lucky, native(), greedy())} == {"greedy"}
    assert {row.cheap for row in table(searching, lucky)} == {None}


def test_tracks_and_formulations_are_never_mixed():
    both = submission("s", lambda e, *_: [(1, 500 if e.startswith("Malloc") else 700)], formulations=(MAPS, GAME))
    rows = table(submission("t", [(1, 600)], track="black-box", budgets=("20",)), both, native())
    shown = [(row.track, row.formulation, row.submission, row.played) for row in rows if not row.budget.endswith("s")]
    assert shown == [
        ("search", GAME, "s", 1),
        ("search", MAPS, "s", 3),
        ("search", MAPS, "native", 3),
        ("black-box", MAPS, "t", 3),
    ]
    assert rows[0].cheap is None
    assert rows[0].share == pytest.approx(1)


def test_nothing_counts_nothing_shown():
    assert table(native(), known=dict.fromkeys(IDS, Known(1000, 990, 990))) == []


LATENCIES = st.integers(500, 1100)


@examples(25)
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
    for budget in {row.budget for row in rows}:
        strength = [row.share for row in rows if row.budget == budget]
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
    assert row.share == pytest.approx(np.mean([cell.shares for cell in counting]))
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
    titles = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")]
    assert titles == [
        *(f"tiny-v1, search, one-shot, {table}" for table in ("10 plans", "1 s", "10 s", "rules without a search")),
        "tiny-v1, zero-shot, one-shot, 1 plans",
    ]
    tables = text.split("### ")[1:]
    for part in tables:
        lines = [line for line in part.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) == 1
    assert "a&#124;b &lt;i&gt; (10 plans)" in tables[2]
    assert "| exact |" in tables[2]
    assert "| *greedy* |" in tables[3]
    assert "P(better than greedy)" in tables[0]
    assert "2 of 3 instances count" in tables[0]
    assert FLAT in tables[0]
    assert "reak-even" not in "".join(tables[:4])
    assert "| 1,000 programs |" in tables[4]
    assert "| *native* |" in tables[4], "with one budget, rules are in its table"
    assert "| never |" in markdown(table(trained(500)), SUITE)
    assert "No instance" in markdown([], SUITE)


def test_own_row_and_copies_are_marked():
    rows = table(submission("mine", [(2, 600)]), submission("other", [(2, 600)]))
    remarks = Remarks(same_plans={("search", "other"): "3 of 3 plans are those of mine."}, mine=("search", "mine"))
    text = markdown(rows, SUITE, remarks)
    assert "| **mine** (yours) |" in text
    assert "other: 3 of 3 plans are those of mine." in text
