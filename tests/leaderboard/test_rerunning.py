"""Running again: what bears a submission out, what does not, and the record that nobody but its keeper writes."""

import json
import shutil
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from benchmarks.experiments.leaderboard import SUBMISSIONS
from memplace_agents.registry import make_agent
from memplace_env._lib.errors import LeaderboardError
from memplace_env.cli.app import app
from memplace_env.placement.simulator import evaluate_plan
from memplace_leaderboard import rerunning, running
from memplace_leaderboard.agent_source import _tree_sha256, source_of
from memplace_leaderboard.board import Board, with_reruns
from memplace_leaderboard.folder import AGENT, META, RUNS, folder_sha256
from memplace_leaderboard.meta_file import read_meta
from memplace_leaderboard.pinned import make_env, task_of
from memplace_leaderboard.rerun_record import RerunRecord, add_record, read_records
from memplace_leaderboard.rerunning import FACTOR, FASTER, SLACK_S, check_times, p_value, run_again
from memplace_leaderboard.submission import Standing
from memplace_leaderboard.suite import REFERENCE, load_suite
from memplace_leaderboard.verifying import read, verify
from tests.leaderboard.tampering import SUITE, change, change_meta, refused
from tests.source import ROOT

SEARCH = SUITE.track("search")
RECORD = RerunRecord("0" * 64, "a", "quick-v1", "search", ("10",), 20, "two-sample", 0.5, 0.0, "2026-01-31", "1", "x")


@pytest.fixture(scope="module")
def random_row(tmp_path_factory):
    """Ten random assignments a run, in five seeds: nothing that is deterministic."""
    out = tmp_path_factory.mktemp("rows") / "random"
    running.run(running.describe(SUITE, SEARCH, "random", {}, ["10"], name="dice"), out)
    return out


@pytest.fixture
def dice(random_row, tmp_path):
    return shutil.copytree(random_row, tmp_path / "dice")


@pytest.fixture(scope="module")
def rule(tmp_path_factory):
    out = tmp_path_factory.mktemp("rows") / "rule"
    running.run(running.describe(SUITE, SEARCH, "native", {"rule": "all-fastest"}, name="fastest"), out)
    return out


def slowed(entries, factor):
    return [
        replace(
            entry,
            seconds=factor * entry.seconds,
            processor_seconds=factor * entry.processor_seconds,
            curve=tuple(point._replace(seconds=factor * point.seconds) for point in entry.curve),
        )
        for entry in entries
    ]


def test_times_that_were_divided_are_refused(dice, monkeypatch):
    """Also by who says that its machine is as much faster."""
    monkeypatch.setattr(rerunning, "SLACK_S", 2e-3)  # as these runs are short
    change(dice, lambda entries: slowed(entries, 1 / 50))
    change_meta(dice, hardware={"rule_s": read_meta(dice / META).hardware["rule_s"] / 50})
    with pytest.raises(LeaderboardError, match="processor seconds a run; it says"):
        run_again(dice, verify(dice))


TIMES = st.floats(0.01, 100.0)


@given(TIMES, st.floats(1 / FASTER, FASTER), st.floats(0, 1), st.floats(0, 0.99 * FACTOR))
def test_honest_times_pass_on_any_machine(said_s, slower, work, luck):
    """A run ends by its work, by the clock, or in part by both; the machine is up to four times as fast or as slow."""
    here = {"one-shot 10s": (0.0, said_s * slower**work * luck)}
    check_times(None, {"one-shot 10s": (0.0, said_s)}, here, 1.0, slower)


@given(TIMES, st.floats(20, 1e4), st.one_of(st.none(), st.text(), st.integers(), st.floats(allow_nan=False)))
def test_no_rule_explains_a_twentieth_of_the_time(ours_s, factor, their_rule):
    said = {"game 10": (0.0, ours_s / factor)}
    if ours_s > ours_s * FACTOR * FASTER / factor + SLACK_S:
        with pytest.raises(LeaderboardError, match="processor seconds a run"):
            check_times(None, said, {"game 10": (0.0, ours_s)}, their_rule, 0.01)
    check_times(None, {"game 10": (0.0, ours_s)}, {"game 10": (0.0, ours_s / factor)}, their_rule, 0.01)


def test_a_row_is_placed_by_the_time_of_its_rerun(dice):
    submission = read(dice)
    for times, spent, mark in (
        ({}, None, "placed by claimed time"),
        ({"one-shot 10": (8.0, 7.0), "game 10": (1.0, 1.0)}, 7.0, ""),
        ({"one-shot 10": (80.0, 7.0)}, 7.0, "wall time, 80 s, is 11 times"),
        ({"one-shot 10": (7.0, 80.0)}, 80.0, "wall time, 7 s, is 0.087 times"),
    ):
        record = replace(RECORD, sha256=submission.sha256, times=times)
        board = Board.of([submission], {record.sha256: record})
        rows = [row for row in board.suites[0].rows if row.submission == "dice" and row.played_budget == "10"]
        kept = [row for row in rows if row.budget == "10"]
        assert [row.processor_seconds == spent for row in kept] == [bool(times)]
        assert mark in kept[0].mark
        assert bool(mark) == bool(kept[0].mark)
        assert {row.budget for row in rows if row.budget == "60s"} == ({"60s"} if not spent or spent < 60 else set())
        assert kept[0].mark in board.markdown(submission.meta)


def test_on_machines_of_another_row_nothing_is_ranked():
    """A row could read their seeds, whether it says whose they are or not."""
    submission = read(SUBMISSIONS / "black-box-v2-factors-0-exact-nominal")
    named = replace(submission, meta=replace(submission.meta, machines_of="exact-nominal"))
    other = replace(submission, meta=replace(submission.meta, name="other"), sha256="2" * 64)
    records = {sha: replace(RECORD, sha256=sha, budgets=("60s",)) for sha in (submission.sha256, other.sha256)}
    for shown, ranked in (([submission], True), ([named], False), ([submission, other], False)):
        for played in with_reruns(shown, records):
            assert (played.standing("60s") is Standing.RERUN, played.public_machines) == (ranked, not ranked)


def test_an_honest_search_comes_out(dice):
    steps = []
    record = run_again(dice, verify(dice), on_progress=lambda done, of: steps.append((done, of)))
    assert (record.method, record.runs, record.budgets) == ("two-sample", 20, ("10",))
    assert record.p_value > 0.01
    assert record.sha256 == folder_sha256(dice)
    assert set(record.times) == {"one-shot 10"}
    assert 0 < record.times["one-shot 10"][1] < 10
    add_record(dice.parent / "reruns.jsonl", record)
    assert read_records(dice.parent / "reruns.jsonl") == {record.sha256: record}
    assert steps[-1] == (20, 20)


def test_plans_that_the_agent_does_not_find_are_refused(dice):
    """Plans of a rule that is far better than dice: they replay, and no rerun finds them."""

    def forged(entries):
        made = []
        for entry in entries:
            plan = make_agent("density-greedy").solve(make_env(entry.env_id)).plan
            latency_ps = evaluate_plan(task_of(entry.env_id), plan).latency_ps
            point = entry.curve[-1]._replace(latency_ps=latency_ps, evaluations=1 + entry.seed)
            made.append(replace(entry, plan=plan, latency_ps=latency_ps, curve=(point,)))
        return made

    change(dice, forged)
    with pytest.raises(LeaderboardError, match="run again, its mean share of the gain is -"):
        run_again(dice, verify(dice))


def test_what_is_deterministic_has_to_be_equal(rule, tmp_path):
    record = run_again(rule, verify(rule))
    assert (record.method, record.p_value, record.change) == ("equal", None, 0.0)
    copy = shutil.copytree(rule, tmp_path / "copy")
    change_meta(copy, options={"rule": "native"})
    with pytest.raises(LeaderboardError, match="run again with another seed"):
        run_again(copy, verify(copy))


def jobs_of_rerun(folder, submission, monkeypatch):
    """The jobs that a rerun would play."""
    jobs = []

    def played(wanted, *_, **__):
        jobs.extend(wanted)
        return [(job, submission.entries[0]) for job in wanted]

    monkeypatch.setattr(rerunning, "run_all", played)
    monkeypatch.setattr(rerunning, "_compared", lambda *_: ("equal", None, 0.0))
    monkeypatch.setattr(rerunning, "check_times", lambda *_: None)
    run_again(folder, submission)
    return jobs


@pytest.mark.parametrize("deterministic", [True, False])
def test_what_runs_again_has_seeds_that_the_submission_has_not(dice, monkeypatch, deterministic):
    submission = read(dice)
    meta = replace(submission.meta, deterministic=deterministic, seeds=(0,) if deterministic else submission.meta.seeds)
    jobs = jobs_of_rerun(dice, replace(submission, meta=meta), monkeypatch)
    assert {job.seed for job in jobs} == ({1} if deterministic else set(range(5, 10)))
    assert not any(job.deterministic for job in jobs), "each is searched by itself"


def test_what_runs_again_on_drawn_machines_has_others_and_the_same_references(dice, monkeypatch):
    drawn = load_suite("black-box-v2")
    fields = {
        "suite": drawn.name,
        "track": "factors-5",
        "formulations": ("one-shot",),
        "machine_seeds": (1, 2, 3, 4, 5),
    }
    submission = read(dice)
    jobs = jobs_of_rerun(dice, replace(submission, meta=replace(submission.meta, **fields)), monkeypatch)
    assert {job.machine_seed for job in jobs}.isdisjoint(fields["machine_seeds"])
    seeds = {budget: {job.seed for job in jobs if job.budget.text == budget} for budget in ("10", REFERENCE)}
    assert seeds == {"10": set(range(5, 10)), REFERENCE: set(range(5))}


def test_a_lucky_seed_is_not_deterministic(dice):
    change_meta(dice, deterministic=True, seeds=(0,))
    change(dice, lambda entries: [replace(entry, seed=0) for entry in entries if entry.seed == 3])
    with pytest.raises(LeaderboardError, match="run again with another seed"):
        run_again(dice, verify(dice))


def test_budgets_of_another_submission_are_refused(dice):
    with pytest.raises(LeaderboardError, match="has the budgets 10, not 100"):
        run_again(dice, verify(dice), ("100",))


def test_p_values_of_equal_things_are_uniform_and_of_unequal_ones_small():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(200):
        old, new = ([rng.normal(size=5) for _ in range(4)] for _ in range(2))
        found.append(p_value(old, new, 200))
    assert 0.02 <= np.mean(np.array(found) < 0.1) <= 0.2
    assert p_value(old, [values - 3 for values in new], 2000) < 0.01
    assert p_value(old, old) == 1


def test_a_tick_holds_for_the_files_and_budgets_that_were_run_again(dice):
    submission = read(dice)
    record = replace(RECORD, sha256=submission.sha256)
    board = Board.of([submission], {record.sha256: record})
    rows = [row for row in board.suites[0].rows if row.submission == "dice"]
    assert {row.standing for row in rows} == {Standing.RERUN}
    assert "✓ dice" in board.markdown(submission.meta, every=False)
    change_meta(dice, link="https://example.org")
    again = read(dice)
    assert again.sha256 != submission.sha256
    (declared,) = {
        row.standing for row in Board.of([again], {record.sha256: record}).suites[0].rows if row.submission == "dice"
    }
    assert declared is Standing.DECLARED


def test_records_are_kept_one_for_each_row(tmp_path):
    path = tmp_path / "reruns.jsonl"
    add_record(path, RECORD)
    add_record(path, replace(RECORD, name="b", sha256="1" * 64))
    add_record(path, replace(RECORD, sha256="2" * 64, p_value=None, method="equal"))
    assert list(read_records(path)) == ["2" * 64, "1" * 64]
    assert "the same plans; 2026-01-31" in read_records(path)["2" * 64].text


@pytest.mark.parametrize(
    "line", ["", "null", "{}", "[1]", {"more": 1}, {"p_value": 7}, {"budgets": [1]}, {"times": {"a": [1, 0]}}]
)
def test_lines_that_are_no_record(tmp_path, line):
    text = line if isinstance(line, str) else json.dumps({**asdict(RECORD), **line})
    (tmp_path / "reruns.jsonl").write_text(text + "\n")
    with pytest.raises(LeaderboardError, match="line 1 is no record"):
        read_records(tmp_path / "reruns.jsonl")


def test_a_record_inside_a_submission_is_none(dice, tmp_path):
    """Neither is it written there, nor read from there."""
    run = CliRunner().invoke(app, ["leaderboard", "rerun", str(dice), "--record", str(dice / "reruns.jsonl")])
    assert run.exit_code == 2
    assert "is inside" in run.stderr
    add_record(dice / "reruns.jsonl", replace(RECORD, sha256=folder_sha256(dice)))
    refused(dice, "reruns.jsonl does not belong")


@pytest.fixture
def own_file(tmp_path, monkeypatch):
    """A submission of an agent that is a file, made from the folder of that file."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "mine_alone.py").write_text(
        "from memplace_agents import DensityGreedy\n\n\nclass Mine(DensityGreedy):\n    name = 'mine alone'\n"
    )
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    run = CliRunner().invoke(
        app, ["leaderboard", "run", "mine_alone:Mine", "--budget", "10", "--out", "out", "--no-check"]
    )
    assert run.exit_code == 0, run.stderr
    return home / "out"


@pytest.mark.slow
def test_an_agents_file_is_in_its_submission_and_is_what_runs_again(own_file, tmp_path, monkeypatch):
    assert {path.name for path in own_file.iterdir()} == {META, RUNS, AGENT}
    assert "mine_alone" not in sys.modules, "it is never loaded in the judge's process"
    monkeypatch.chdir(tmp_path)
    (own_file.parent / "mine_alone.py").unlink()
    command = ["leaderboard", "rerun", str(own_file), "--record", "reruns.jsonl"]
    unnamed = CliRunner().invoke(app, command)
    assert unnamed.exit_code == 1
    assert "pass --agent mine_alone:Mine" in unnamed.stdout
    named = CliRunner().invoke(app, [*command, "--agent", "mine_alone:Mine", "--json"])
    assert named.exit_code == 0, named.stdout
    assert json.loads(named.stdout)[0]["record"]["runs"] == 4
    table = CliRunner().invoke(app, ["leaderboard", "table", str(own_file), "--reruns", "reruns.jsonl"])
    assert "✓ **mine alone** (yours)" in table.stdout
    (own_file / AGENT).write_text("class Mine: pass\n")
    other = CliRunner().invoke(app, [*command, "--agent", "mine_alone:Mine"])
    assert "the code of mine_alone:Mine here is" in other.stdout
    (own_file / AGENT).unlink()
    refused(own_file, "lacks agent.py")


def test_code_that_belongs_to_no_submission(dice):
    (dice / AGENT).write_text("print('hello')\n")
    refused(dice, "has none that it describes")


def test_format_2_says_where_code_comes_from(dice):
    change_meta(dice, agent="some.where:Agent")
    refused(dice, "does not say where some.where:Agent comes from")
    change_meta(dice, source={"kind": "package", "name": "some", "version": "1", "sha256": "0"})
    assert read(dice).meta.source["name"] == "some"
    with pytest.raises(LeaderboardError, match="there is no module 'some'"):
        run_again(dice, read(dice))


def test_a_package_is_all_of_its_files(tmp_path):
    (tmp_path / "deep" / "__pycache__").mkdir(parents=True)
    seen = {_tree_sha256(tmp_path)}
    for name in ("__init__.py", "weights.bin", "deep/fast.so", "deep/__pycache__/hidden.bin", "old.pyc", "weights.bin"):
        with (tmp_path / name).open("ab") as file:
            file.write(b"x")
        assert _tree_sha256(tmp_path) not in seen, name
        seen.add(_tree_sha256(tmp_path))
    (tmp_path / "deep" / "__pycache__" / "it.cpython-311.pyc").write_bytes(b"x")
    assert _tree_sha256(tmp_path) in seen
    (tmp_path / "away").symlink_to(tmp_path.parent)
    with pytest.raises(LeaderboardError, match="a link to a folder"):
        _tree_sha256(tmp_path)


def test_a_package_that_changed_does_not_run(dice):
    source = source_of("tests.leaderboard.cheating_agents:Cheat")
    assert source["kind"] == "package"
    change_meta(dice, agent="tests.leaderboard.cheating_agents:Cheat", source={**source, "sha256": "0" * 64})
    with pytest.raises(LeaderboardError, match="install that"):
        run_again(dice, read(dice))


def test_runs_of_format_2_have_processor_seconds(dice):
    change(dice, lambda entries: [replace(entries[0], processor_seconds=None), *entries[1:]])
    refused(dice, "is not of format 2")
    change_meta(dice, format=1)
    refused(dice, "is not of format 1")
    assert read_meta(dice / META).made
