"""The sequential environment beyond the checkers: observations, planners' interface, errors."""

from pathlib import Path
from random import Random

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import memplace_env
from memplace_env._lib.errors import ActionError, WorkloadError
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import GameBatch, MallocGameEnv, MallocGameProblem
from memplace_env.envs.malloc_game.observation import LOOKAHEAD, PROGRESS, TENSOR
from memplace_env.envs.malloc_game.state import BLOCKS, COPY, DROP, NO_COPY, OP
from memplace_env.envs.registration import GAME
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plan, traffic_bound_ps
from memplace_env.placement.validation import violations
from memplace_env.program.program import TensorKind
from tests.envs.both_sides import ACTIONS, TASTES, expected_preview, pick
from tests.references.reference_game import Game
from tests.strategies import game_tasks, programs, programs_with_pairs
from tests.thorough import examples

TASKS = game_tasks(programs() | programs_with_pairs(programs()))

WORKLOAD = "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"


@pytest.fixture
def env():
    made = MallocGameEnv(WORKLOAD)
    made.reset(seed=0)
    return made


def random_game(env, seed=0):
    """Steps of a random game of legal moves."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    steps = []
    while not steps or not steps[-1][2]:
        steps.append(env.step(int(rng.choice(env.legal_actions()))))
    return steps


@examples(60)
@given(TASKS, st.integers(0, 99))
def test_a_game_is_what_the_simulator_says(task, seed):
    env = MallocGameEnv(task)
    steps = random_game(env, seed)
    report = evaluate_plan(task, env.plan())
    assert report.latency_s == steps[-1][4]["latency_s"]
    all_backing = env.problem.all_backing_ps
    assert sum(step[1] for step in steps) == pytest.approx(100 * (1 - report.latency_ps / all_backing))
    assert len(steps) == task.program.num_uses
    assert not any(step[4]["illegal"] for step in steps)


@examples(60)
@given(TASKS, st.data())
def test_unfinished_games_have_plans_too(task, data):
    env = MallocGameEnv(task)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    env.reset()
    for _ in range(data.draw(st.integers(0, task.program.num_uses - 1))):
        env.step(int(rng.choice(env.legal_actions())))
        state = env.get_state()
        assert violations(task, env.plan()) == []
        assert (env.get_state() == state).all()


@examples(60)
@given(TASKS, st.data())
def test_profiles_and_features_by_definition(task, data):
    """The updated profile equals the one drawn anew, and both follow from the blocks."""
    program, problem = task.program, MallocGameProblem(task)
    fine, coarse = (GameBatch([problem] * 3, problem.new_states(3), flat) for flat in (False, True))
    seen, flat = fine.empty(3), coarse.empty(3)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for _ in range(data.draw(st.integers(1, program.num_uses))):
        actions = rng.integers(0, 3, 3)
        moves = fine.step(actions, seen)
        assert np.array_equal(coarse.step(actions, flat), moves)
        states = np.stack(fine.states)
        assert (flat == GameBatch([problem] * 3, states, flat=True).observe()).all()
        anew = GameBatch([problem] * 3, states, flat=False).observe()
        for name, one, other in zip(seen._fields, seen, anew, strict=True):
            assert (one == other).all(), name
    layout, state, now = problem.layout, states[0], min(states[0, OP], program.num_ops - 1)
    capacity, expected = problem.tables.capacity, np.zeros((64, 64), dtype=int)
    for block in range(state[BLOCKS]):
        first = state[layout.start + block] + (state[layout.arrived + block] < -1)  # else the operand is drawn there
        low, size = state[layout.offset + block], program.tensor_bytes[state[layout.tensor + block]]
        for op in range(max(first, now - 63), min(state[layout.committed_until + block], now) + 1):
            for address in range(64):
                bottom, top = address * capacity, (address + 1) * capacity
                part = min((low + size) * 64, top) - max(low * 64, bottom)
                expected[address, op - now + 63] += max(part, 0) * 255 // capacity
    assert (seen.profile[0, 0] == expected).all()
    assert (seen.profile[0, 1] <= seen.profile[0, 0]).all()


@examples(100)
@given(game_tasks(), st.integers(0, 2**32), TASTES)
def test_waits_and_write_backs_are_seen_as_the_reference_counts_them(task, seed, taste):
    """`wait` and `pending` of the tensor; `waits`, `pending` and `owed` of the game, at its end too."""
    rng, problem, game = Random(seed), MallocGameProblem(task), Game.begin(task)
    states, mean_ps = problem.new_states(1), game.estimate() / task.program.num_ops

    def beside_an_op(time_ps):
        return time_ps / max(time_ps + mean_ps, 1)

    while True:
        seen, pending = GameBatch([problem], states, flat=False).observe().of(0), game.pending()
        progress = dict(zip(PROGRESS, seen["progress"].tolist(), strict=True))
        assert progress["waits"] == np.float32(sum(game.stall) / max(game.estimate(), 1))
        assert progress["pending"] == np.float32(min(len(pending) / 8, 1))
        ahead = game.fork()
        owed = game.tail if game.over else sum(ahead._book(write.start, game.op, write.demand) for write in pending)
        assert progress["owed"] == pytest.approx(beside_an_op(owed))
        if game.over:
            break
        tensor = dict(zip(TENSOR, seen["tensor"].tolist(), strict=True))
        assert tensor["pending"] == (game.write_back(game.tensor) is not None)
        assert tensor["wait"] == pytest.approx(beside_an_op(expected_preview(game)[2]))
        action = pick(rng, [action for action in ACTIONS if game.legal(action)[0]], taste)
        game.play(action)
        problem.play(states, np.array([action]))


def test_features_of_the_first_decision(env):
    observation, _ = env.reset()
    tensor = dict(zip(TENSOR, observation["tensor"], strict=True))
    program = env.program
    first = program.use_tensor[0]
    assert program.tensor_kind[first] == TensorKind.INPUT
    assert (tensor["is_input"], tensor["is_weight"], tensor["backed"], tensor["intact"]) == (1, 0, 1, 0)
    assert tensor["size"] == np.float32(min(program.tensor_bytes[first] / env.accelerator.levels[0].capacity_bytes, 1))
    ahead = observation["lookahead"]
    assert ahead[0, LOOKAHEAD.index("exists")] == 1
    assert (ahead[:, LOOKAHEAD.index("exists")].sum()) == min(32, program.num_uses)
    assert observation["progress"].tolist() == [0, 1, 0, 0, 0, 0]
    for step in random_game(env):
        assert all(env.observation_space[key].contains(value) for key, value in step[0].items())
    assert step[0]["progress"][0] == 1
    assert step[0]["action_mask"].tolist() == [0, 0, 0]


def test_illegal_actions_fall_back_and_say_so(env):
    assert env.legal_actions() == [DROP], "nothing can be copied before the first op"
    _, _, _, _, info = env.step(COPY)
    assert info["illegal"]
    assert info["played"] == DROP
    other = MallocGameEnv(WORKLOAD)
    other.reset()
    other.step(DROP)
    assert (other.get_state() == env.get_state()).all()


@pytest.mark.parametrize("action", [3, -1, 1.0, None, "Copy", np.array([1]), np.array([0, 1])])
def test_bad_actions_are_refused(env, action):
    before = env.get_state()
    with pytest.raises(ActionError, match="0 Copy"):
        env.step(action)
    assert (env.get_state() == before).all()


def test_a_finished_game_must_be_reset(env):
    random_game(env)
    assert env.legal_actions() == []
    with pytest.raises(ActionError, match="reset"):
        env.step(DROP)


def test_three_levels_are_refused():
    with pytest.raises(WorkloadError, match="two memory levels; 'nnp-i' has 3"):
        MallocGameEnv("synthetic:chain", accelerator="nnp-i")


PRESET = Path(memplace_env.__file__).parent / "machine" / "accelerator" / "presets" / "edge-tpu.toml"


@pytest.mark.parametrize("chip", ["edge-tpu", str(PRESET), PRESET, load_accelerator("edge-tpu")])
def test_of_resident_machines_a_streamed_copy_is_played(chip):
    """Its plans are for that copy, and their settings make the task anew."""
    workload = "synthetic:chain?ops=6&accelerator=edge-tpu"
    env = MallocGameEnv(workload, accelerator=chip)
    random_game(env)
    plan = env.plan()
    assert env.accelerator.name == env.problem.accelerator.name == plan.accelerator == "edge-tpu-streamed"
    resident = resolve_task(workload, "edge-tpu")
    assert violations(env.task, plan) == []
    assert {violation.rule for violation in violations(resident, plan)} == {"accelerator"}
    again = resolve_task(workload, plan.settings.get("accelerator", plan.accelerator))
    assert evaluate_plan(again, plan).latency_ps == env.report().latency_ps
    assert again.accelerator == env.accelerator
    vector = gym.make_vec("MallocGame-v0", num_envs=2, workload=resident)
    assert vector.unwrapped.env.task is MallocGameEnv(resident).task, "a task is streamed once"


def test_the_registered_game_of_a_resident_machine_says_what_it_plays():
    env = gym.make("MallocGame-ResNet101-edge-tpu-v0").unwrapped
    assert (env.accelerator.name, env.accelerator.weights) == ("edge-tpu-streamed", "streamed")
    one_shot = gym.make("MemPlace-v0", **GAME["ResNet101-edge-tpu"]).unwrapped
    assert (one_shot.accelerator.name, one_shot.accelerator.weights) == ("edge-tpu", "resident")
    assert env.report().traffic_bound_ps == traffic_bound_ps(env.task) > traffic_bound_ps(one_shot.task)


def test_planners_interface():
    problem = MallocGameEnv(WORKLOAD).problem
    states = problem.new_states(8)
    problem.finish_randomly(states, seed=3)
    again = problem.new_states(8)
    problem.finish_randomly(again, seed=3)
    assert (states == again).all()
    assert problem.done(states).all()
    assert not problem.legal(states).any()
    greedy = problem.new_states(1)
    problem.finish_greedily(greedy)
    assert problem.latency_s(greedy)[0] <= problem.all_backing_ps * PS
    actions = np.full((2, problem.num_decisions), NO_COPY)
    replayed = problem.new_states(2)
    problem.replay(replayed, actions)
    stepped = problem.new_states(1)
    for action in actions[0]:
        problem.play(stepped, np.array([action]))
    assert (stepped == replayed).all(), "the actions that replay reports lead to the same game"
