"""A judge in another process: cheats that passed when agents ran in the process that counts, refused or harmless."""

import gc
import os
import signal
import struct
import subprocess
import threading
import time
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.reduction import send_handle
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import LeaderboardError
from memplace_env.placement.compiler import HEURISTICS, all_backing, native_plan
from memplace_leaderboard import checks, contestant, jobs, judge_pipe, machine_reference, running, verifying
from memplace_leaderboard import judge as judges
from memplace_leaderboard.drawn_machines import MeasuredMachine, drawn_machine
from memplace_leaderboard.folder import META, RUNS
from memplace_leaderboard.jobs import Job, play
from memplace_leaderboard.judge import Judge
from memplace_leaderboard.judge_pipe import JudgePipe
from memplace_leaderboard.judged_machine import JudgedMachine
from memplace_leaderboard.meta_file import read_meta
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.plan_wire import from_bytes, to_bytes
from memplace_leaderboard.remote_simulator import MEASURED, REFUSED
from memplace_leaderboard.suite import Budget, load_suite
from tests.leaderboard import cheating_agents
from tests.patience import patience

QUICK, DRAWN = load_suite("quick-v1"), load_suite("black-box-v2")
MAP = "MemPlace-TCN-LM-v0"
AGENTS = "tests.leaderboard.cheating_agents"


def job(agent, track="search", budget="10", seed=0, suite=QUICK, **fields):
    return Job(f"{AGENTS}:{agent}", {}, suite.track(track), MAP, Budget(budget), seed, **fields)


def test_plans_timed_behind_the_back_are_in_the_processor_time():
    """One plan is counted; but in the tables that rank, of equal time, the row stands where its time puts it."""
    entry, honest = play(job("BehindItsBack")), play(replace(job(""), agent="random"))
    assert (entry.evaluations, honest.evaluations) == (1, 10)
    assert entry.processor_seconds > 2 * honest.processor_seconds > 0


def test_counters_that_are_set_back_change_no_count():
    with pytest.raises(LeaderboardError, match="the budget is 20 measurements, which are spent"):
        play(job("CounterReset", "factors-5", "20", suite=DRAWN, machine_seed=7))


def test_clocks_that_stand_still_are_not_asked():
    with pytest.raises(LeaderboardError, match=r"it took \d\.\d s with a budget of 1 s"):
        play(job("ClockPatch", budget="1s"))


def test_no_cache_is_warm():
    first, second = (play(job("WarmCache", seed=seed)) for seed in (0, 1))
    assert first.plan == second.plan == native_plan(task_of(MAP))


@pytest.fixture
def small(monkeypatch):
    """One instance and two seeds of a suite whose machines are drawn; references take little work."""
    suite = replace(DRAWN, seeds=2, instances={MAP: DRAWN.instances[MAP]})
    for module in (checks, verifying):
        monkeypatch.setattr(module, "load_suite", lambda name: suite)
    monkeypatch.setattr(machine_reference, "PLANS", 20)
    monkeypatch.setattr(machine_reference, "SOLVE_WORK", 0.2)
    return suite


def test_the_factors_of_a_machine_are_nowhere_to_be_read(small, tmp_path, monkeypatch):
    """Neither in the process, nor in the folder: seeds are written when all is done."""
    monkeypatch.setenv("LEADERBOARD_OUT", str(tmp_path / "out"))
    monkeypatch.setattr(jobs, "judge", Judge)  # a new process, which has the variable
    track = small.track("event-2-0")
    meta = running.describe(small, track, f"{AGENTS}:FactorReader", {}, ["10"])
    assert meta.format == 2
    running.run(meta, tmp_path / "out")
    submission = verifying.verify(tmp_path / "out")
    assert submission.meta.machine_seeds == meta.machine_seeds
    assert {entry.plan == native_plan(task_of(MAP)) for entry in submission.entries if entry.budget == "10"} == {True}


def test_a_stopped_run_on_drawn_machines_begins_anew_on_others(small, tmp_path, monkeypatch):
    meta = running.describe(small, small.track("event-2-0"), "native", {}, nominal=True)
    played = running.play

    def mortal(job):
        if job.seed == 1:
            raise KeyboardInterrupt
        return played(job)

    monkeypatch.setattr(running, "play", mortal)
    with pytest.raises(KeyboardInterrupt):
        running.run(meta, tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert META in left
    assert RUNS not in left
    assert "runs.jsonl" not in left
    assert read_meta(tmp_path / META).machine_seeds is None
    monkeypatch.setattr(running, "play", played)
    again = running.describe(small, small.track("event-2-0"), "native", {}, nominal=True)
    running.run(again, tmp_path)
    assert verifying.verify(tmp_path).meta.machine_seeds == again.machine_seeds != meta.machine_seeds


def ended(process):
    """Wait for the end of a process; return whether it came."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text().split()[2]
        except OSError:
            return True
        if state == "Z":  # a dead process that nobody collects stays as a zombie
            return True
        time.sleep(0.05)
    return False


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A judge, and the folder in which processes of its agents may write."""
    folder, judge = tmp_path_factory.mktemp("left"), Judge()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEADERBOARD_OUT", str(folder))
        yield judge, folder
    judge.close()


@pytest.fixture
def left(watched, monkeypatch):
    """The file in which a process of an agent writes its id."""
    judge, folder = watched
    monkeypatch.setattr(jobs, "judge", lambda: judge)
    (folder / "pid").unlink(missing_ok=True)
    return folder / "pid"


def test_nothing_is_left_behind(left):
    play(job("Fork"))
    assert ended(int(left.read_text()))


def test_helpers_are_paid_for(left):
    """Whoever waits for them, or nobody; and what never ends is ended."""
    for agent in ("Helped", "Orphan", "Ignored"):
        entry = play(job(agent))
        assert 0.8 * cheating_agents.WORK_S < entry.processor_seconds < entry.seconds + 0.2, agent
    assert ended(int(left.read_text()))


def test_helpers_end_with_the_judge(left):
    def end():
        while not left.exists() or not left.read_text():
            time.sleep(0.02)
        jobs.judge()._control.close()  # as the system does when the judge is killed

    threading.Thread(target=end, daemon=True).start()
    with pytest.raises(LeaderboardError, match="its process died"):
        play(job("Waiting"))
    assert ended(int(left.read_text()))


@pytest.fixture
def hasty(monkeypatch):
    """A judge that gives up after seconds."""
    for module in (judges, judge_pipe):
        monkeypatch.setattr(module, "MESSAGE_S", 1.0)
    monkeypatch.setattr(checks, "LATEST", 1.0)
    monkeypatch.setattr(checks, "LATEST_S", 1.0)
    monkeypatch.setattr(judges, "REPORTS", 3000)


@pytest.mark.parametrize(
    ("agent", "budget", "said"),
    [
        *((agent, "1s", "did not end") for agent in ("HalfMessage", "Drip", "Frozen")),
        *((agent, "10", "did not end") for agent in ("HalfMessage", "Drip")),
        ("Flood", "10", "more than 3,000 improvements"),
    ],
)
def test_no_message_takes_for_ever(hasty, agent, budget, said):
    with pytest.raises(LeaderboardError, match=said):
        play(job(agent, budget=budget))


def test_a_flood_ends_with_its_time(hasty, monkeypatch):
    monkeypatch.setattr(judges, "REPORTS", 10**9)
    with pytest.raises(LeaderboardError, match="did not end"):
        play(job("Flood", budget="1s"))


def test_answers_that_nobody_reads_end(hasty, monkeypatch):
    monkeypatch.setattr(checks, "LATEST_S", 1000.0)
    with pytest.raises(LeaderboardError, match="does not read the answers"):
        play(job("Deaf", "factors-0", "60s", suite=DRAWN, machine_seed=7))


@pytest.mark.parametrize("agent", ["Assassin", "Hypnotist"])
def test_who_ends_or_stops_the_process_that_starts_agents_is_refused(hasty, agent):
    with pytest.raises(LeaderboardError):
        play(job(agent, budget="1s"))
    assert play(job("WarmCache")).evaluations == 1


def test_a_stopped_server_is_replaced(hasty):
    """An agent can stop it where the system does not forbid that."""
    play(job("WarmCache"))
    server = jobs.judge()._process
    threading.Timer(0.5, server.send_signal, [signal.SIGSTOP]).start()
    with pytest.raises(LeaderboardError, match="did not end"):
        play(job("HalfMessage", budget="10"))
    assert server.poll() is not None
    assert play(job("WarmCache")).evaluations == 1


OLD = tuple(map(int, os.uname().release.split(".")[:2])) < (6, 12)


@pytest.mark.skipif(OLD and os.geteuid() == 0, reason="root is bound from Linux 6.12 on")
def test_the_process_that_starts_agents_has_no_open_door():
    with pytest.raises(LeaderboardError, match=r"found \[\]"):
        play(job("Burglar"))


@given(st.binary(max_size=300), st.integers(0, 303))
def test_a_message_is_whole_or_late(message, cut):
    pipe = JudgePipe()
    whole = struct.pack("!i", len(message)) + message
    pipe.theirs.sendall(whole[:cut])
    try:
        assert pipe.receive(0.01) == message
        assert cut >= len(whole)
    except TimeoutError:
        assert cut < len(whole)
    pipe.theirs.close()
    pipe.close()


@given(st.integers(-(2**31), 2**31 - 1).filter(lambda size: not 0 <= size <= 2**26))
def test_sizes_that_no_message_has(size):
    pipe = JudgePipe()
    pipe.theirs.sendall(struct.pack("!i", size))
    with pytest.raises(LeaderboardError, match="a message above"):
        pipe.receive(1.0)
    pipe.theirs.close()
    pipe.close()


def test_a_run_ends_with_its_judge_without_a_traceback(monkeypatch):
    """Also if the judge ends before it has heard of the run, as after Ctrl-C."""
    judge, theirs = Pipe()
    judge.send_bytes(b"{}")
    send_handle(judge, theirs.fileno(), os.getpid())
    judge.close()
    monkeypatch.setattr(contestant, "signal", SimpleNamespace(signal=lambda *_: None, SIGINT=2, SIG_IGN=1, SIGKILL=9))
    monkeypatch.setattr(contestant.os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(contestant._Warmth, "ready", lambda *_: True)
    for change in ("hide_memory", "adopt_orphans"):  # of this process
        monkeypatch.setattr(contestant, change, lambda: None)
    monkeypatch.setattr(contestant, "ProcessTimes", lambda: SimpleNamespace(wait=lambda: 0, sweep=lambda: None))
    with subprocess.Popen(["sleep", "60"], process_group=0) as run:
        monkeypatch.setattr(contestant.os, "fork", lambda: run.pid)
        contestant.serve(os.dup(theirs.fileno()))
        assert run.wait(patience(10)) == -signal.SIGKILL
    gc.unfreeze()


def test_a_process_that_dies_is_a_sentence():
    with pytest.raises(LeaderboardError, match=f"Death on {MAP}, budget 10, seed 0: its process died"):
        play(job("Death"))
    assert play(job("WarmCache")).evaluations == 1, "the next run has a process of its own"


def test_evaluations_that_an_agent_denies_are_counted_by_its_environment():
    assert play(job("Pretender")).evaluations == 8


def test_curves_have_the_clock_of_the_judge():
    entry = play(replace(job("", budget="100"), agent="local-search"))
    assert [point.seconds for point in entry.curve] == sorted(point.seconds for point in entry.curve)
    assert 0 < entry.curve[0].seconds <= entry.curve[-1].seconds <= entry.seconds


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_measurements_are_refused_beyond_the_budget(noise):
    """Without noise, a plan that was measured before costs nothing."""
    task = task_of(MAP)
    plans = [native_plan(task), HEURISTICS["all-fastest"](task), all_backing(task)]
    box = MeasuredMachine(drawn_machine("factors", 5), noise, 1)
    measurements = JudgedMachine(box, task, 2)
    measurements.answer(to_bytes(plans[:1]))
    measurements.begin()
    assert measurements.answer(to_bytes(plans[1:2]))[:1] == MEASURED
    assert measurements.answer(to_bytes(plans[:2]))[:1] == (REFUSED if noise else MEASURED)
    assert measurements.answer(to_bytes(plans[2:]))[:1] == MEASURED
    assert measurements.count == 2
    assert measurements.answer(to_bytes(plans[:1]))[:1] == (REFUSED if noise else MEASURED)


def test_plans_that_cannot_run_are_not_measured():
    task = task_of(MAP)
    plan = HEURISTICS["all-fastest"](task)
    blocks = plan.allocations.copy()
    blocks[:, 2] = 0
    measurements = JudgedMachine(MeasuredMachine(drawn_machine("factors", 5), 0.0, 1), task, None)
    answer = measurements.answer(to_bytes([replace(plan, allocations=blocks)]))
    assert answer[:1] == REFUSED
    assert b"cannot run" in answer
    assert measurements.count == 0


def test_what_travels_is_the_plan():
    task = task_of(MAP)
    plans = [native_plan(task), HEURISTICS["all-fastest"](task)]
    assert from_bytes(to_bytes(plans), task) == plans
    assert from_bytes(to_bytes([]), task) == []
