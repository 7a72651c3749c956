"""The event simulator on the shipped chips: equal to `builtin` with nothing on, and never below its bound."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import SimulatorError, WorkloadError
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.machine.accelerator import Accelerator, accelerator_names, load_accelerator
from memplace_env.machine.accelerator.accelerator import BACKING
from memplace_env.machine.accelerator.event_description import NO_MECHANISMS, DmaEngines, DramBanks, Mechanisms
from memplace_env.placement.compiler import HEURISTICS, place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.simulator import EventSimulator, time_plan, traffic_bound_ps
from memplace_env.placement.simulator.event import overlap_bound_ps
from memplace_env.placement.task import Task
from tests.placement.simulator.test_events import assert_same
from tests.placement.simulator.test_simulator import timings
from tests.strategies import programs_with_rows, sliced_now_and_then, tensor_levels
from tests.subjects import play_randomly
from tests.thorough import examples

BACKED = [name for name in accelerator_names() if load_accelerator(name).io_level == BACKING]
CHIPS = (*BACKED, "nnp-i-streamed", "edge-tpu-streamed")
LARGER = 2**10
"""Factor of the random programs' bytes: of kilobytes, a chip would hold everything in one tile."""


@cache
def small(name: str) -> Accelerator:
    """The chip with memories, local memory and descriptors for programs of kilobytes."""
    chip = load_accelerator(name)
    on = chip.mechanisms
    tiles = on.tiles and replace(on.tiles, local_bytes=max(on.tiles.local_bytes // LARGER, 1))
    dma = on.dma and replace(on.dma, descriptor_bytes=max(on.dma.descriptor_bytes // LARGER, 1))
    levels = [replace(level, capacity_bytes=level.capacity_bytes // LARGER) for level in chip.levels[:-1]]
    return replace(chip, levels=(*levels, chip.levels[-1]), mechanisms=replace(on, tiles=tiles, dma=dma))


@st.composite
def shipped(draw: st.DrawFn) -> tuple[Task, MemoryPlan, bool]:
    """A task on a shipped chip, under either cost model, in slices now and then, a plan, and
    whether it is one of the formulations' and so valid."""
    chip = small(draw(st.sampled_from(CHIPS)))
    models = ["roofline", "tiled"] if chip.tiling else ["roofline"]
    task = make_task(draw(sliced_now_and_then(programs_with_rows())), chip, costs=draw(st.sampled_from(models)))
    kind = draw(st.sampled_from(["map", "game", "any copies"]))
    if kind == "game" and task.streams_weights and chip.num_levels == 2:
        problem = MallocGameProblem(task)
        return task, problem.plan(play_randomly(problem, problem.num_decisions, draw(st.integers(0, 99)))), True
    if kind == "any copies":
        return task, draw(timings(task)), False
    return task, place_levels(task, draw(tensor_levels(task))).plan, True


@examples(150, deadline=None)
@given(shipped())
def test_equal_to_the_built_in_simulator_with_nothing_on_and_above_the_bound_with_all(case):
    task, plan, valid = case
    nominal = time_plan(task, plan)
    assert_same(EventSimulator(task.settings.get("costs"), NO_MECHANISMS).run(*where(task), plan), nominal)
    report = EventSimulator(task.settings.get("costs")).run(*where(task), plan)
    tiled = task.accelerator.mechanisms.tiles is not None
    assert report.traffic_bound_ps == (overlap_bound_ps(task) if tiled else traffic_bound_ps(task))
    assert not valid or 0 < report.traffic_bound_ps <= report.latency_ps
    work = task.costs.work_ps.sum() if tiled else 0
    assert report.latency_ps >= max(work, report.port_ps.sum(axis=0).max())
    assert (report.memory_loss_ps >= report.stall_ps).all()
    assert (report.memory_loss_ps[report.bound_by >= 0] > 0).all()
    if task.accelerator.mechanisms == NO_MECHANISMS:
        assert_same(report, nominal)


def where(task: Task):
    return task.program, task.accelerator


@pytest.mark.parametrize(("env_id", "chip"), [("MemPlaceSteps-v0", "nnp-i"), ("MallocGame-v0", "intel-npu-4000")])
def test_vectors_pay_the_latency_of_events(env_id, chip):
    settings = {"workload": "MobileNetV2", "accelerator": chip, "simulator": "event"}
    vector = gym.make_vec(env_id, num_envs=3, autoreset_mode="SameStep", **settings)
    env = gym.make(env_id, **settings).unwrapped
    vector.reset(seed=0)
    env.reset(seed=0)
    over, returned = False, 0.0
    while not over:
        action = max(env.legal_actions()) if env_id.startswith("Malloc") else 0
        _, rewards, ends, _, _ = vector.step(np.full(3, action))
        _, reward, over, _, info = env.step(action)
        assert rewards == pytest.approx(reward)
        assert ends.all() == over
        returned += reward
    assert info["latency_s"] == env.report().latency_s
    assert env.report().latency_ps == EventSimulator().run(*where(env.task), env.plan()).latency_ps
    assert env.report().latency_ps != time_plan(env.task, env.plan()).latency_ps


@pytest.mark.parametrize(
    "mechanisms",
    [
        Mechanisms(dma=DmaEngines(1, 4, 2**18, 0)),
        Mechanisms(dma=DmaEngines(1, 2**40, 2**10, 10**15)),
        Mechanisms(dram=DramBanks(1, 64, 10**17, 0, 0)),
    ],
    ids=["slow engine", "descriptors", "one bank"],
)
def test_times_that_could_leave_int64_are_refused(mechanisms):
    task = resolve_task("MobileNetV2", "intel-npu-4000")
    with pytest.raises(WorkloadError, match=r"\[event\] sections of 'intel-npu-4000' may add over"):
        EventSimulator(mechanisms=mechanisms).run(*where(task), HEURISTICS["all-fastest"](task))


def test_its_name_is_offered_where_another_is_misspelt():
    with pytest.raises(SimulatorError, match="did you mean 'event'"):
        resolve_task("MobileNetV2", simulator="evnt")
