"""Attempts to cheat: each is refused with one sentence that names the fault."""

import lzma
import time
import tracemalloc
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest

from memplace_env._lib.errors import LeaderboardError
from memplace_env.placement.compiler import native_plan
from memplace_leaderboard import folder as files
from memplace_leaderboard import running
from memplace_leaderboard.board import Board
from memplace_leaderboard.checks import FASTEST_USE_S
from memplace_leaderboard.entry import Point
from memplace_leaderboard.folder import META, RUNS, read_runs, to_line
from memplace_leaderboard.jobs import judge
from memplace_leaderboard.meta_file import read_meta
from memplace_leaderboard.pinned import make_env, task_of
from memplace_leaderboard.row_names import check_unique
from memplace_leaderboard.suite import load_suite
from memplace_leaderboard.verifying import verify
from tests.leaderboard.tampering import SUITE, change, change_first, change_meta, refused, write_lines

FIRST, SECOND = list(SUITE.instances)[:2]


def test_an_honest_one_is_accepted(honest):
    submission = verify(honest)
    assert len(submission.entries) == 4 * 5


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


def test_chosen_seeds(folder):
    change_meta(folder, seeds=(0, 1, 2, 3, 7))
    refused(folder, META, "seeds must be [0, 1, 2, 3, 4]")


def test_a_missing_instance(folder):
    change(folder, lambda entries: [entry for entry in entries if entry.env_id != SECOND])
    refused(folder, SECOND, "is missing")


def test_too_many_evaluations(folder):
    change_first(folder, evaluations=11)
    refused(folder, FIRST, "evaluated 11 plans with a budget of 10")


def test_a_suite_that_was_changed_here(folder, monkeypatch):
    """Should the code make another program of an id than the suite pinned, nothing can be compared."""
    from memplace_leaderboard import pinned

    monkeypatch.setattr(pinned, "costs_sha256", lambda costs: "other")
    pinned.pinned.cache_clear()
    refused(folder, FIRST, "costs_sha256", "install the version")
    pinned.pinned.cache_clear()


def test_another_version_of_the_code_is_no_fault(folder):
    """Hashes and the replay decide, so that a release voids no row."""
    change_meta(folder, memplace="0.0.9")
    assert verify(folder).meta.memplace == "0.0.9"


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


@pytest.mark.parametrize(
    ("cut", "fault"), [(0, "is cut off"), (10, "is cut off"), (-5, "is cut off"), (slice(9, None), "is damaged")]
)
def test_a_damaged_file(folder, cut, fault):
    content = (folder / RUNS).read_bytes()
    (folder / RUNS).write_bytes(content[cut] if isinstance(cut, slice) else content[:cut])
    refused(folder, RUNS, fault)


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


def test_our_own_placer_takes_longer_than_what_is_refused():
    problem = make_env(FIRST).problem
    assignments = np.repeat(problem.native_assignment[None], 2000, axis=0)
    problem.evaluate(assignments[:1])
    begin = time.process_time()
    problem.evaluate(assignments, threads=1)
    assert (time.process_time() - begin) / 2000 > FASTEST_USE_S * problem.program.num_uses


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


@pytest.mark.parametrize("agent", ["subprocess:Popen", "os:getcwd", "json:JSONDecoder"])
def test_what_is_no_agent_is_not_called(agent, tmp_path):
    with pytest.raises(LeaderboardError, match="not an agent"):
        judge().describe(agent, {"args": ["touch", str(tmp_path / "owned")]})
    assert not (tmp_path / "owned").exists()
