"""The sequential environment beyond the checkers: observations, planners' interface, errors, learning algorithms."""

import gymnasium as gym
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO

import memplace_env  # noqa: F401
from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameProblem
from memplace_env.envs.malloc_game.observation import LOOKAHEAD, TENSOR
from memplace_env.envs.malloc_game.state import COPY, DROP, NO_COPY
from memplace_env.errors import ActionError, WorkloadError
from memplace_env.plan import validate
from memplace_env.simulator import simulate
from memplace_env.workload.program import TensorKind
from memplace_env.wrappers import SB3VecEnv, SkipForced
from tests.strategies import programs, two_level_accelerators

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


@settings(max_examples=60)
@given(st.data())
def test_a_game_is_what_the_simulator_says(data):
    program, chip = data.draw(programs()), data.draw(two_level_accelerators())
    env = MallocGameEnv(program, chip)
    steps = random_game(env, data.draw(st.integers(0, 99)))
    report = simulate(program, chip, env.plan())
    assert report.latency_s == steps[-1][4]["latency_s"]
    all_backing = env.problem.all_backing_ps
    assert sum(step[1] for step in steps) == pytest.approx(1 - report.latency_ps / all_backing)
    assert len(steps) == program.num_uses
    assert not any(step[4]["illegal"] for step in steps)


@settings(max_examples=60)
@given(st.data())
def test_unfinished_games_have_plans_too(data):
    program, chip = data.draw(programs()), data.draw(two_level_accelerators())
    env = MallocGameEnv(program, chip)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    env.reset()
    for _ in range(data.draw(st.integers(0, program.num_uses - 1))):
        env.step(int(rng.choice(env.legal_actions())))
        state = env.get_state()
        assert validate(program, chip, env.plan()) == []
        assert (env.get_state() == state).all()


@settings(max_examples=60)
@given(st.data())
def test_profiles_and_features_by_definition(data):
    """The picture kept up to date is the one drawn anew, and both are what the blocks say."""
    program, chip = data.draw(programs()), data.draw(two_level_accelerators())
    problem = MallocGameProblem(program, chip)
    rows = problem.new_rows(3)
    profiles = problem.observe(rows).profile
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    for _ in range(data.draw(st.integers(1, program.num_uses))):
        seen = problem.step(rows, rng.integers(0, 3, 3), profiles)[2]
        anew = problem.observe(rows)
        for name, one, other in zip(seen._fields, seen, anew, strict=True):
            assert (one == other).all(), name
    at, row, now = problem.at, rows[0], min(rows[0, 1], program.num_ops - 1)
    expected = np.zeros((64, 64), dtype=int)
    for block in range(row[2]):
        low, size = row[at.offset + block], program.tensor_bytes[row[at.tensor + block]]
        for op in range(max(row[at.start + block], now - 63), min(row[at.hold + block], now) + 1):
            for address in range(64):
                bottom, top = address * problem.g.capacity, (address + 1) * problem.g.capacity
                part = min((low + size) * 64, top) - max(low * 64, bottom)
                expected[address, op - now + 63] += max(part, 0) * 255 // problem.g.capacity
    assert (seen.profile[0, 0] == expected).all()
    assert (seen.profile[0, 1] <= seen.profile[0, 0]).all()


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
    assert observation["progress"].tolist() == [0, 1, 0]
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
    with pytest.raises(WorkloadError, match="two memory levels"):
        MallocGameEnv("synthetic:chain", accelerator="nnp-i")


def test_resident_machines_stream_in_the_game():
    env = MallocGameEnv("synthetic:chain?ops=6&accelerator=edge-tpu", accelerator="edge-tpu")
    random_game(env)
    assert validate(env.program, env.accelerator, env.plan()) == []


def test_planners_interface():
    problem = MallocGameEnv(WORKLOAD).problem
    rows = problem.new_rows(8)
    problem.finish_randomly(rows, seed=3)
    again = problem.new_rows(8)
    problem.finish_randomly(again, seed=3)
    assert (rows == again).all()
    assert problem.done(rows).all()
    assert not problem.legal(rows).any()
    greedy = problem.new_rows(1)
    problem.finish_greedily(greedy)
    assert problem.latency_s(greedy)[0] <= problem.all_backing_ps * 1e-12
    actions = np.full((2, problem.num_decisions), NO_COPY)
    replayed = problem.new_rows(2)
    problem.replay(replayed, actions)
    stepped = problem.new_rows(1)
    for action in actions[0]:
        problem.play(stepped, np.array([action]))
    assert (stepped == replayed).all(), "what replay says was played, plays the same game"


def test_skip_forced_keeps_the_return():
    plain, skipping = MallocGameEnv(WORKLOAD), SkipForced(MallocGameEnv(WORKLOAD))
    rng = np.random.default_rng(0)
    _, info = skipping.reset(seed=0)
    total, decisions, over = info["skipped_reward"], info["skipped"], False
    actions = []
    while not over:
        legal = skipping.unwrapped.legal_actions()
        assert len(legal) > 1
        actions.append(int(rng.choice(legal)))
        _, reward, over, _, info = skipping.step(actions[-1])
        assert info["played"] == actions[-1]
        total += reward
        decisions += 1 + info["skipped"]
    assert decisions == plain.problem.num_decisions
    assert total == pytest.approx(1 - info["latency_s"] / (plain.problem.all_backing_ps * 1e-12))
    with pytest.raises(TypeError, match="MallocGame"):
        SkipForced(gym.make("MemPlace-v0", workload="synthetic:chain"))


@pytest.mark.parametrize("algorithm", [PPO, MaskablePPO])
def test_algorithms_train_through_the_adapter(algorithm):
    venv = SB3VecEnv(gym.make_vec("MallocGame-v0", num_envs=4, workload=WORKLOAD))
    model = algorithm("MultiInputPolicy", venv, n_steps=32, batch_size=64, n_epochs=1, seed=0, device="cpu")
    model.learn(128)
    assert model.num_timesteps == 128


@pytest.mark.slow
def test_maskable_ppo_trains_by_id():
    model = MaskablePPO("MultiInputPolicy", "MallocGame-ResNet50-v0", n_steps=128, n_epochs=1, seed=0, device="cpu")
    model.learn(128)
    assert model.num_timesteps == 128
