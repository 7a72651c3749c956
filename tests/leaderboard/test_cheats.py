"""Attempts to cheat: each is refused with one sentence that names the fault."""

import json
import lzma
import os
import shutil
import time
import tracemalloc
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from memplace_env._lib.errors import LeaderboardError
from memplace_env.leaderboard import folder as files
from memplace_env.leaderboard import running
from memplace_env.leaderboard.board import Board
from memplace_env.leaderboard.checks import FASTEST_USE_S, check_spending
from memplace_env.leaderboard.entry import Point
from memplace_env.leaderboard.folder import META, RUNS, read_runs, to_line
from memplace_env.leaderboard.meta_file import read_meta
from memplace_env.leaderboard.pinned import make_env, task_of
from memplace_env.leaderboard.row_names import check_unique
from memplace_env.leaderboard.suite import load_suite
from memplace_env.leaderboard.verifying import rerun, verify
from memplace_env.placement.compiler import native_plan
from tests.leaderboard.tampering import SUITE, change, change_first, change_meta, refused, write_lines

FIRST, SECOND = list(SUITE.instances)[:2]


def test_an_honest_one_is_accepted(honest):
    submission = verify(honest)
    assert len(submission.entries) == 4 * 5
    rerun(honest, submission, submission.entries[7])


def test_writing_and_reading_change_nothing(folder):
    before = (folder / RUNS).read_bytes()
    change(folder, list)
    assert (folder / RUNS).read_bytes() == before
    change_meta(folder)
    assert read_meta(folder / META) == verify(folder).meta


def test_a_plan_that_cannot_run(folder):
    def shifted(entries):
        plan = entries[0].plan
        blocks = plan.allocations.copy()
        blocks[:, 2] = 0  # all at one address
        return [replace(entries[0], plan=replace(plan, allocations=blocks)), *entries[1:]]

    change(folder, shifted)
    refused(folder, FIRST, "cannot run")


def test_the_plan_of_another_program(folder):
    other = next(entry for entry in read_runs(folder / RUNS) if entry.env_id == SECOND)
    change_first(folder, plan=other.plan)
    refused(folder, FIRST, "cannot run", "made for")


def test_the_plan_of_the_same_program_in_slices(folder):
    """Slices make another task, in which the same network may be faster."""
    sliced = native_plan(gym.make(FIRST, slices=0.1, disable_env_checker=True).unwrapped.task)
    change_first(folder, plan=sliced)
    refused(folder, FIRST, "cannot run", "made for another program")
    own = next(read_runs(folder / RUNS)).plan
    whole = task_of(FIRST).program.sha256
    assert own.program_sha256 != whole
    change_first(folder, plan=replace(own, program_sha256=whole, settings={}))
    refused(folder, FIRST, "cannot run", "use_level has")


def test_a_latency_that_was_edited(folder):
    def faster(entries):
        first = entries[0]
        less = first.latency_ps - 1
        curve = (*first.curve[:-1], first.curve[-1]._replace(latency_ps=less))
        return [replace(first, latency_ps=less, curve=curve), *entries[1:]]

    change(folder, faster)
    refused(folder, FIRST, "replays in")


def test_a_curve_that_ends_elsewhere(folder):
    change_first(folder, latency_ps=1)
    refused(folder, FIRST, "curve does not end with the latency")


def test_a_missing_seed(folder):
    change(folder, lambda entries: entries[:4] + entries[5:])
    refused(folder, FIRST, "seed 4 is missing")


def test_chosen_seeds(folder):
    change_meta(folder, seeds=(0, 1, 2, 3, 7))
    refused(folder, META, "seeds must be [0, 1, 2, 3, 4]")


def test_a_missing_instance(folder):
    change(folder, lambda entries: [entry for entry in entries if entry.env_id != SECOND])
    refused(folder, SECOND, "is missing")


def test_too_many_evaluations(folder):
    change_first(folder, evaluations=11)
    refused(folder, FIRST, "evaluated 11 plans with a budget of 10")


def test_fewer_evaluations_than_it_took_are_found_by_running_again(folder):
    def hurried(entries):
        first = entries[0]
        curve = tuple(point._replace(evaluations=min(point.evaluations, 5)) for point in first.curve)
        return [replace(first, evaluations=5, curve=curve), *entries[1:]]

    change(folder, hurried)
    submission = verify(folder)
    with pytest.raises(LeaderboardError, match="run again"):
        rerun(folder, submission, submission.entries[0])


def test_another_suite(folder):
    change_meta(folder, suite_sha256="0" * 64)
    refused(folder, META, "made for another quick-v1")


def test_a_suite_that_was_changed_here(folder, monkeypatch):
    """Should the code make another program of an id than the suite pinned, nothing can be compared."""
    from memplace_env.leaderboard import pinned

    monkeypatch.setattr(pinned, "costs_sha256", lambda costs: "other")
    pinned.pinned.cache_clear()
    refused(folder, FIRST, "costs_sha256", "install the version")
    pinned.pinned.cache_clear()


def test_another_version_of_the_code_is_no_fault(folder):
    """Hashes and the replay decide, so that a release voids no row."""
    change_meta(folder, memplace="0.0.9")
    assert verify(folder).meta.memplace == "0.0.9"


def test_one_seed_copied_to_another(folder):
    change(folder, lambda entries: [entries[0], replace(entries[0], seed=1), *entries[2:]])
    refused(folder, FIRST, "copied from the other")


def test_one_run_twice(folder):
    change(folder, lambda entries: [entries[0], *entries])
    refused(folder, FIRST, "two runs")


@pytest.mark.parametrize(
    ("step", "faults"),
    [(1, ("line 6:", "seed 5 is not expected")), (0, ("line 2:", "there are two runs"))],
    ids=["other seeds", "one seed"],
)
def test_more_runs_than_expected_are_not_read(folder, step, faults):
    """Reading stops early: of 300 runs with long curves, 25 MB in 6 kB, at most one more than expected is in memory."""
    first = next(read_runs(folder / RUNS))
    line = to_line(replace(first, seed=0, curve=(Point(1, 0.0, 5),) * files.POINTS))
    runs = [line.replace(b'"seed":0', b'"seed":%d' % (step * number)) for number in range(300)]
    (folder / RUNS).write_bytes(lzma.compress(b"".join(runs), preset=0))
    tracemalloc.start()
    refused(folder, RUNS, *faults)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**25


def test_two_submissions_of_one_name():
    with pytest.raises(LeaderboardError, match="called 'local-search'"):
        check_unique(["local-search", "exact", "local-search"])


def test_runs_in_another_order(folder, honest):
    change(folder, lambda entries: entries[::-1])
    assert verify(folder).entries == verify(honest).entries


@pytest.mark.parametrize("name", ["extra.txt", ".hidden", "runs.sh"])
def test_files_that_do_not_belong_there(folder, name):
    (folder / name).write_text("x")
    refused(folder, name, "does not belong")


@pytest.mark.parametrize("name", [META, RUNS])
def test_links_are_not_followed(folder, tmp_path, name):
    away = tmp_path / "away"
    shutil.move(folder / name, away)
    (folder / name).symlink_to(away)
    refused(folder, name, "not a regular file")


@pytest.mark.parametrize("name", [META, RUNS])
def test_pipes_do_not_hang(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, name, "not a regular file")


@pytest.mark.parametrize("name", [META, RUNS])
def test_a_missing_file(folder, name):
    (folder / name).unlink()
    refused(folder, name, "is missing")


@pytest.mark.parametrize("name", ["../../etc/passwd", "MemPlace-Nothing-v0", "a\\b"])
def test_names_that_are_no_instance(folder, name):
    change_first(folder, env_id=name)
    refused(folder, repr(name), "not an instance")


def test_a_huge_file(folder):
    with (folder / RUNS).open("wb") as file:
        file.truncate(files.PACKED_BYTES + 1)
    refused(folder, RUNS, f"the limit is {files.PACKED_BYTES:,}")


def test_a_huge_description(folder):
    (folder / META).write_text("#" * (files.META_BYTES + 1))
    refused(folder, META, f"the limit is {files.META_BYTES:,}")


def test_a_file_that_unpacks_to_too_much(folder, monkeypatch):
    monkeypatch.setattr(files, "UNPACKED_BYTES", 2**12)
    refused(folder, f"{RUNS} unpacks to more than 4,096 bytes")


def test_a_bomb_is_not_unpacked(folder):
    """Unpacking stops early: of 64 MiB of zeros, in 10 kB, a few times a line's limit are in memory at a time."""
    write_lines(folder, bytes(2**26))
    tracemalloc.start()
    refused(folder, RUNS, "line 1", f"more than {files.LINE_BYTES:,} bytes")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * files.LINE_BYTES


def test_a_decoder_that_asks_for_too_much_memory(folder):
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2 * files.DECODER_BYTES}]
    (folder / RUNS).write_bytes(lzma.compress(b"x", filters=filters))
    refused(folder, RUNS, "is damaged", "limit")


def test_too_many_lines(folder):
    write_lines(folder, b"\n" * (files.LINES + 1))
    refused(folder, RUNS, "has more than 10,000 lines")


@pytest.mark.parametrize(
    ("cut", "fault"), [(0, "is cut off"), (10, "is cut off"), (-5, "is cut off"), (slice(9, None), "is damaged")]
)
def test_a_damaged_file(folder, cut, fault):
    content = (folder / RUNS).read_bytes()
    (folder / RUNS).write_bytes(content[cut] if isinstance(cut, slice) else content[:cut])
    refused(folder, RUNS, fault)


def test_trailing_data(folder):
    (folder / RUNS).write_bytes((folder / RUNS).read_bytes() + b"x")
    refused(folder, RUNS, "has trailing data")


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("seed", True, "not a whole number"),
        ("latency_ps", -1, "not a whole number"),
        ("latency_ps", 10**30, "not a whole number"),
        ("evaluations", 1.5, "not a whole number"),
        ("seconds", "soon", "seconds"),
        ("seconds", float("nan"), "NaN is not a number"),
        ("seconds", 1e9, "seconds"),
        ("curve", [[1, 2]], "curve"),
        ("curve", {}, "curve"),
        ("plan", None, "plan"),
        ("budget", 10, "budget"),
        ("env_id", "\x1b[31m", "env_id"),
        ("env_id", "x" * 10**5, "env_id"),
        ("more", 1, "exactly the fields"),
    ],
)
def test_fields_of_another_kind(folder, field, value, said):
    first, *others = read_runs(folder / RUNS)
    changed = json.dumps(json.loads(to_line(first)) | {field: value}).encode() + b"\n"
    write_lines(folder, changed, *map(to_line, others))
    refused(folder, RUNS, "line 1", said)


@pytest.mark.parametrize(
    "text",
    [b"[" * 100_000, b"1" * 5000, b"null", b"{}", b'{"env_id": 1', b"\x00", b"\xff"],
    ids=["deep", "long number", "null", "empty", "cut", "zero", "no UTF-8"],
)
def test_lines_that_are_no_run(folder, text):
    write_lines(folder, text)
    refused(folder, RUNS, "line 1")


def test_budgets_of_no_track(folder):
    change_meta(folder, budgets=("11",))
    refused(folder, META, "has no budget '11'")


def test_a_deterministic_row_has_one_seed(folder):
    change_meta(folder, deterministic=True)
    refused(folder, META, "seeds must be [0]")


def test_nothing_that_measures_with_noise_is_deterministic(folder):
    drawn = load_suite("black-box-v2")
    change_meta(
        folder, suite=drawn.name, suite_sha256=drawn.sha256, track="factors-5", machine_seeds=(1, 2, 3, 4, 5),
        deterministic=True,
    )  # fmt: skip
    refused(folder, META, "not deterministic")
    for nominal in (True, False):
        meta = running.describe(drawn, drawn.track("factors-5"), "density-greedy", {}, ["10"], nominal=nominal)
        assert (meta.deterministic, meta.seeds) == (nominal, (0, 1, 2, 3, 4))


def test_training_on_the_test_split(folder):
    from memplace_env.leaderboard.checks import check_meta
    from memplace_env.leaderboard.submission import Training

    meta = replace(read_meta(folder / META), suite="one-shot-v1", suite_sha256=load_suite("one-shot-v1").sha256)
    trained = replace(meta, track="zero-shot", training=Training(("MemPlace-DiT-S-2-v0", FIRST), 10, 1.0))
    with pytest.raises(LeaderboardError, match="not in the train split"):
        check_meta(replace(trained, training=Training(tuple(SUITE.instances), 10, 1.0)))


def curve_of(folder, points):
    change(folder, lambda entries: [replace(entries[0], curve=tuple(points(entries[0]))), *entries[1:]])


def test_a_curve_that_was_faster_on_the_way(folder):
    curve_of(folder, lambda entry: [Point(1, 0.0, 1), entry.curve[-1]])
    refused(folder, FIRST, "does not improve")
    curve_of(folder, lambda entry: [Point(1, 0.0, 0), entry.curve[-1]])
    refused(folder, FIRST)


def test_under_noise_a_curve_may_rise_but_not_come_from_nowhere(honest):
    entry = verify(honest).entries[0]
    end = entry.curve[-1]
    for factor, fine in ((0.95, True), (0.5, False), (0.0, False)):
        earlier = Point(1, 0.0, round(factor * entry.latency_ps))
        told = replace(entry, curve=(earlier, end))
        if fine:
            check_spending(told, noise=0.02)
        else:
            with pytest.raises(LeaderboardError, match="faster than its plan"):
                check_spending(told, noise=0.02)


def test_a_run_in_no_time(folder):
    change_first(folder, seconds=0.0, curve=())
    refused(folder, FIRST, "making its plan alone takes more than")
    first = next(read_runs(folder / RUNS))
    least = FASTEST_USE_S * len(first.plan.use_level)
    for seconds, fine in ((0.99 * least, False), (1.01 * least, True)):
        told = replace(first, seconds=seconds, curve=(Point(1, 0.0, first.latency_ps),))
        if fine:
            check_spending(told)
        else:
            with pytest.raises(LeaderboardError, match="making its plan alone"):
                check_spending(told)
        timed = replace(told, seconds=1.0, processor_seconds=seconds)
        if fine:
            check_spending(timed)
        else:
            with pytest.raises(LeaderboardError, match="making its plan alone"):
                check_spending(timed)


def test_our_own_placer_takes_longer_than_what_is_refused():
    problem = make_env(FIRST).problem
    assignments = np.repeat(problem.native_assignment[None], 2000, axis=0)
    problem.evaluate(assignments[:1])
    begin = time.process_time()
    problem.evaluate(assignments, threads=1)
    assert (time.process_time() - begin) / 2000 > FASTEST_USE_S * problem.program.num_uses


def test_a_plan_without_an_evaluation(folder):
    change_first(folder, evaluations=0)
    refused(folder, FIRST, "evaluated no plan")


def test_a_curve_that_ends_before_its_first_evaluation(folder):
    curve_of(folder, lambda entry: [Point(0, 0.0, entry.latency_ps)])
    refused(folder, FIRST, "begins before its first evaluation")


def test_a_curve_without_end(folder):
    curve_of(folder, lambda entry: [Point(1, 0.0, 5)] * (files.POINTS + 1))
    refused(folder, RUNS, "line 1", "curve")


def test_another_row_with_the_same_runs(honest):
    submission = verify(honest)
    other = replace(submission, meta=replace(submission.meta, name="my own work"))
    with pytest.raises(LeaderboardError, match="the same run"):
        Board.of([submission, other])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("my-net", "My-Net"),
        ("my-net", "my net"),
        ("mylocal", "myIocal"),
        ("mylocal", "my1ocal"),
        ("pool", "po0l"),
        ("modern", "modem"),
    ],
)
def test_names_that_look_alike(one, other):
    with pytest.raises(LeaderboardError, match="looks like"):
        check_unique([one, "something", other])


def test_names_that_only_have_much_in_common():
    check_unique(["net-1.0", "net-10", "net-1", "net-2", "net", "net-s", "network"])


@pytest.mark.parametrize("name", ["Iocal-search", "local-search", "LOCAL SEARCH", "xla-msa", "native", "best-rule"])
def test_the_name_of_another_agent(folder, name):
    """A forged row of a rule would be what everybody is compared with."""
    change_meta(folder, name=name, agent="mine:Agent")
    refused(folder, META, "is or looks like", "another name")


def test_the_name_of_an_agent_with_other_options(folder):
    change_meta(folder, options={"temperature": 0.5})
    refused(folder, META, "with its default options")
    change_meta(folder, name="local-search hot")
    verify(folder)


def test_a_lucky_seed_is_not_deterministic(tmp_path):
    """Running again takes another seed."""
    folder = tmp_path / "lucky"
    running.run(running.describe(SUITE, SUITE.track("search"), "random", {}, ["10"], name="lucky"), folder)
    change_meta(folder, deterministic=True, seeds=(0,))
    change(folder, lambda entries: [replace(entry, seed=0) for entry in entries if entry.seed == 2])
    submission = verify(folder)
    unlike = []
    for entry in submission.entries:
        try:
            rerun(folder, submission, entry)
        except LeaderboardError as error:
            unlike.append(str(error))
    assert unlike
    assert all("run again" in each for each in unlike)


@pytest.mark.parametrize("agent", ["subprocess:Popen", "os:getcwd", "json:JSONDecoder"])
def test_what_is_no_agent_is_not_called(folder, agent, tmp_path):
    source = {"kind": "package", "name": "stranger", "version": "1", "sha256": "0"}
    change_meta(
        folder, name="stranger", agent=agent, source=source, options={"args": ["touch", str(tmp_path / "owned")]}
    )
    submission = verify(folder)
    with pytest.raises(LeaderboardError, match="not an agent"):
        rerun(folder, submission, submission.entries[0])
    assert not (tmp_path / "owned").exists()
