"""Machines that are drawn when a run is judged: what they are, what agents see of them, and how rows on them count."""

from dataclasses import replace

import numpy as np
import pytest

from memplace_env._lib.errors import LeaderboardError
from memplace_env.envs.best_known import Known
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.accelerator.event_description import Tiles
from memplace_env.placement.compiler import HEURISTICS, all_backing
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.simulator.event import EventSimulator
from memplace_env.testing import check_simulator
from memplace_leaderboard import checks, jobs, machine_reference, running, verifying
from memplace_leaderboard.board import SuiteBoard
from memplace_leaderboard.cells import cells, counting_ids
from memplace_leaderboard.drawn_machines import (
    MACHINES,
    MeasuredMachine,
    draw_seeds,
    drawn_machine,
    noise_seed,
    tiled_mechanisms,
)
from memplace_leaderboard.folder import META
from memplace_leaderboard.machine_reference import find_reference
from memplace_leaderboard.meta_file import read_meta
from memplace_leaderboard.pinned import baseline_plan, make_env, task_of
from memplace_leaderboard.suite import REFERENCE, load_suite
from tests.leaderboard.tampering import change, change_meta, refused

MAP, GAME = "MemPlace-NeRF-intel-npu-4000-v0", "MallocGame-R3D-18-edge-tpu-v0"
SUITE = load_suite("black-box-v2")


def latency(machine, env_id=MAP, plan=None):
    task = task_of(env_id)
    plan = HEURISTICS["all-fastest"](task) if plan is None else plan
    return evaluate_plan(replace(task, simulator=machine), plan).latency_ps


@pytest.mark.parametrize("name", MACHINES)
def test_a_machine_is_a_simulator_that_its_seed_decides(name):
    check_simulator(MeasuredMachine(MACHINES[name](5), 0.0, 0))
    assert latency(MACHINES[name](5)) == latency(MACHINES[name](5)) != latency(MACHINES[name](6))


def test_the_machines_differ_and_none_is_the_public_chip():
    latencies = {name: latency(make(5)) for name, make in MACHINES.items()}
    assert len({*latencies.values(), latency(EventSimulator()), latency(None)}) == len(MACHINES) + 2


def test_tiles_of_chips():
    """The number of buffers is the machine's; a chip without tiles gets an eighth of its fastest memory."""
    own = load_accelerator("intel-npu-4000")
    assert tiled_mechanisms(own, 1) == replace(own.mechanisms, tiles=replace(own.mechanisms.tiles, buffers=1))
    bare = load_accelerator("edge-tpu")
    assert bare.mechanisms.tiles is None
    assert tiled_mechanisms(bare, 2).tiles == Tiles(2, bare.levels[0].capacity_bytes // 8, 2)
    assert tiled_mechanisms(bare, 2).dma is tiled_mechanisms(bare, 2).dram is None


@pytest.mark.parametrize("noise", [0.0, 0.05])
def test_agents_see_latency_and_energy_alone(noise):
    env = make_env(MAP, MeasuredMachine(drawn_machine("event-2", 5), noise, 1))
    report = evaluate_plan(env.task, HEURISTICS["all-fastest"](env.task))
    assert not any(np.any(values) for values in (report.op_time_ps, report.compute_ps, report.port_ps))
    assert (report.latency_ps == latency(drawn_machine("event-2", 5))) == (noise == 0)
    assert [name for name in vars(env.task.simulator) if not name.startswith("_")] == ["measured"]
    assert not hasattr(env.task.simulator, "seed")


def test_measurements_are_counted_once_where_they_say_nothing_new():
    task = task_of(MAP)
    plans = [all_backing(task), HEURISTICS["all-fastest"](task)]
    for noise, counted in ((0.0, 2), (0.05, 4)):
        box = MeasuredMachine(drawn_machine("factors", 5), noise, 1)
        for _ in range(2):
            box.run_batch(task.program, task.accelerator, plans)
        assert box.measured == counted


def test_noise_goes_by_machine_and_run():
    seeds = [
        noise_seed(machine, *run) for machine in (1, 2) for run in ((MAP, "10", 0), (GAME, "10", 0), (MAP, "1", 0))
    ]
    assert len(set(seeds)) == 6
    assert len(set(draw_seeds(5) + draw_seeds(5))) == 10


def test_a_reference_is_no_slower_than_any_plan_that_it_begins_with(monkeypatch):
    monkeypatch.setattr(machine_reference, "PLANS", 60)
    monkeypatch.setattr(machine_reference, "SOLVE_WORK", 0.3)
    for env_id in (MAP, GAME):
        machine = drawn_machine("event-2", 7)
        found = find_reference(machine, env_id)
        rules = [
            baseline_plan(task_of(env_id), make_env(env_id).formulation),
            HEURISTICS["all-fastest"](task_of(env_id)),
        ]
        assert found.evaluations == 60
        assert latency(machine, env_id, found.plan) <= min(latency(machine, env_id, plan) for plan in rules)


@pytest.fixture(scope="module")
def small():
    """The suite with two instances and two seeds."""
    return replace(SUITE, seeds=2, instances={env_id: SUITE.instances[env_id] for env_id in (MAP, GAME)})


@pytest.fixture
def shipped(small, monkeypatch):
    """Rules and replays take the small suite; references take little work."""
    for module in (checks, verifying):
        monkeypatch.setattr(module, "load_suite", lambda name: small)
    monkeypatch.setattr(machine_reference, "PLANS", 30)
    monkeypatch.setattr(machine_reference, "SOLVE_WORK", 0.2)


@pytest.fixture
def submitted(small, shipped, tmp_path):
    """A row that measures nothing."""
    out = tmp_path / "native"
    running.run(running.describe(small, small.track("event-2-5"), "native", {}, deterministic=True, nominal=True), out)
    return out


def test_a_submission_on_drawn_machines(small, submitted, tmp_path, monkeypatch):
    """Seeds are drawn, one search serves all machines, others may run on the same ones, and each row replays."""
    native = verifying.verify(submitted)
    assert len(set(native.meta.machine_seeds)) == 2
    own = [entry for entry in native.entries if entry.budget == "own"]
    assert [len(own), len(native.entries)] == [4, 8]
    for first, second in (own[:2], own[2:]):
        assert first.plan == second.plan
        assert (first.evaluations, first.seconds) == (second.evaluations, second.seconds)
        assert first.latency_ps != second.latency_ps
    again = running.describe(small, small.track("event-2-5"), "native", {}, deterministic=True, nominal=True)
    assert not set(again.machine_seeds) & set(native.meta.machine_seeds)
    running.run(again, submitted)  # goes on with the machines that it has
    assert read_meta(submitted / META) == native.meta

    monkeypatch.setattr(jobs, "find_reference", None)
    track = small.track("event-2-0")
    meta = running.describe(small, track, "local-search", {}, ["10"], machines=native)
    running.run(meta, tmp_path / "search", machines=native)
    search = verifying.verify(tmp_path / "search")
    assert search.meta.machine_seeds == native.meta.machine_seeds
    assert {entry.evaluations for entry in search.entries if entry.budget == "10"} == {10}
    with pytest.raises(LeaderboardError, match="not on machines of"):
        running.describe(small, small.track("event-1-0"), "local-search", {}, ["10"], machines=native)

    board = SuiteBoard(small, (search, native))
    known = board.known["event-2-0"]
    every = cells(small, board.submissions, baselines=board.baselines, known=board.known)
    assert board.known["event-2-5"] == known
    for submission in board.submissions:
        for entry in submission.entries:
            place = submission.meta.place(entry.env_id, entry.seed)
            assert known[place].best_ps <= entry.latency_ps
    assert all(0 <= share <= 1 + 1e-9 for cell in every for share in cell.shares)
    assert {cell.gap for cell in every} == {None}


def test_cheats(submitted):
    meta = read_meta(submitted / META)
    first, second = meta.machine_seeds
    for seeds, said in (
        ((second, first), "its plan replays in"),
        ((first, first), "2 different numbers"),
        ((first,), "2 different numbers"),
        (None, "machine_seeds must say so"),
    ):
        change_meta(submitted, machine_seeds=seeds)
        refused(submitted, said)
    change_meta(submitted, machine_seeds=meta.machine_seeds)
    change(submitted, lambda entries: [entry for entry in entries if entry.budget != REFERENCE])
    refused(submitted, "budget reference and seed 0 is missing")


def test_tracks_without_drawn_machines_have_no_seeds_of_them():
    quick = load_suite("quick-v1")
    meta = running.describe(quick, quick.track("search"), "native", {})
    assert meta.machine_seeds is None
    assert meta.place(MAP, 0) == MAP
    with pytest.raises(LeaderboardError, match="draws no machines"):
        checks.check_meta(replace(meta, machine_seeds=(1,)))


def test_what_counts_is_decided_by_the_mean_over_machines():
    known = {"a@1": Known(1, 100, 0), "a@2": Known(1, 100, 0), "b@1": Known(1, 100, 0), "b@2": Known(1, 100, 0)}
    assert counting_ids({"a@1": 100, "a@2": 107, "b@1": 102, "b@2": 103}, known) == {"a"}
