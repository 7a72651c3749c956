"""Episodes that begin from a state: from the prefixes of a plan, in single and in native vector environments."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from hypothesis import given
from hypothesis import strategies as st

import memplace_agents
from memplace_env._lib.errors import EnvError, PlanError
from memplace_env.envs.datasets import states_along
from memplace_env.envs.malloc_game import MallocGameEnv, nearest_actions
from memplace_env.envs.malloc_game.plan_actions import actions_of
from memplace_env.envs.registration import Formulation
from tests.subjects import small_game
from tests.test_all_envs import assert_same

TINY = Formulation.GAME.traits.env_id("Tiny")
WORKLOAD = "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i"


@pytest.fixture(scope="module", params=[None, WORKLOAD])
def solved(request):
    """A game, its exact plan, and the return of that plan."""
    env = gym.make(TINY).unwrapped if request.param is None else MallocGameEnv(request.param)
    solution = memplace_agents.Exact().solve(env)
    assert solution.outcome == "optimal"
    all_backing = env.reset()[1]["latency_s"]
    return env, solution.plan, 100 * (1 - solution.report.latency_s / all_backing)


def test_every_prefix_ends_at_the_optimum(solved):
    env, plan, optimum = solved
    actions = nearest_actions(env.problem, plan)
    states = states_along(env.problem, plan, range(len(actions)))
    before = 0.0
    for decision, state in enumerate(states):
        _, info = env.reset(options={"state": state})
        assert np.array_equal(env.get_state(), state)
        start = info["latency_s"]
        rewards, illegal = [], []
        for action in actions[decision:]:
            _, reward, over, _, info = env.step(action)
            rewards.append(reward)
            illegal.append(info["illegal"])
        assert over
        assert not any(illegal)
        earned = 100 * (start - info["latency_s"]) / (env.problem.all_backing_ps * 1e-12)
        assert sum(rewards) == pytest.approx(earned, abs=1e-9), "rewards add up from the state's own estimate"
        assert before + sum(rewards) == pytest.approx(optimum, abs=1e-9)
        before += rewards[0]


@given(st.integers(0, 2**16), st.integers(3, 12))
def test_the_game_of_a_games_plan_is_that_game(seed, ops):
    problem = small_game("random", ops, seed)
    states = problem.new_states(2)
    problem.finish_randomly(states, seed)
    problem.finish_greedily(greedy := problem.new_states(1))
    for state in (*states, *greedy):
        plan = problem.plan(state)
        again = problem.new_states(1)
        problem.replay(again, actions_of(problem, plan)[None].copy())
        assert problem.plan(again[0]) == plan


@pytest.mark.parametrize("dense", [False, True])
def test_steps_begin_along_a_plan_too(dense):
    env = gym.make("MemPlaceSteps-Tiny-v0", dense=dense).unwrapped
    _, info = env.reset()
    plan = memplace_agents.Exact().solve(gym.make("MemPlace-Tiny-v0")).plan
    actions = env.problem.actions_of(plan)
    states = states_along(env.problem, plan, range(len(actions)))
    vector = gym.make_vec("MemPlaceSteps-Tiny-v0", num_envs=len(actions), dense=dense)
    assert np.array_equal(vector.reset(options={"state": states})[1]["decision"], env.problem.tables.decision)
    paid = 0.0
    for decision, state in enumerate(states):
        env.reset(options={"state": state})
        rewards = [env.step(action)[1] for action in actions[decision:]]
        assert paid + sum(rewards) == pytest.approx(info["optimal_return"])
        paid += rewards[0]
    other = gym.make("MemPlaceSteps-v0", workload="synthetic:chain?ops=4").unwrapped
    with pytest.raises(PlanError, match="another program"):
        states_along(other.problem, plan, 0)


def test_random_play_is_better_the_later_it_begins(solved):
    env, plan, _ = solved
    count = env.problem.num_decisions
    means = []
    for decision in (0, count // 3, 2 * count // 3, count - 1):
        states = np.repeat(states_along(env.problem, plan, [decision]), 2000, axis=0)
        env.problem.finish_randomly(states, seed=0)
        means.append(env.problem.latency_s(states).mean())
    assert means == sorted(means, reverse=True)
    assert means[0] > 1.1 * means[-1]


def test_states_of_another_process_are_taken(solved):
    env, plan, _ = solved
    state = states_along(env.problem, plan, 5)[0]
    fresh = MallocGameEnv(env.task)
    assert_same(fresh.reset(options={"state": state})[0], env.reset(options={"state": state})[0])


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_native_vectors_equal_gymnasiums_own(solved, mode):
    """One state for all, with masks in between, and autoreset to the start of the game."""
    env, plan, _ = solved
    late = states_along(env.problem, plan, env.problem.num_decisions - 3)[0]
    native = gym.make_vec("MallocGame-v0", num_envs=3, workload=env.task, autoreset_mode=mode)
    sync = SyncVectorEnv([lambda: gym.make("MallocGame-v0", workload=env.task)] * 3, autoreset_mode=mode)
    for count in (2, 5, 8):
        assert_same(*(vector.reset(options={"state": late}) for vector in (native, sync)))
        native.action_space.seed(count)
        ended = np.zeros(3, dtype=bool)
        for step in range(count):
            if ended.any() and mode == "Disabled":
                options = {"reset_mask": ended, "state": late}
                assert_same(*(vector.reset(options=dict(options)) for vector in (native, sync)))
            elif step == 1:
                options = {"reset_mask": np.array([True, False, True]), "state": late}
                assert_same(*(vector.reset(options=dict(options)) for vector in (native, sync)))
            actions = native.action_space.sample()
            mine = native.step(actions)
            assert_same(mine, sync.step(actions))
            ended = mine[2]


@given(st.lists(st.integers(0, 13), min_size=4, max_size=4), st.data())
def test_a_state_for_each_game(decisions, data):
    vector = gym.make_vec(TINY, num_envs=4)
    plan = memplace_agents.GreedyPlayer().solve(vector.env).plan
    states = states_along(vector.problem, plan, decisions)
    vector.reset()
    which = np.array(data.draw(st.lists(st.booleans(), min_size=4, max_size=4).filter(any)))
    given_states = [state if wanted else None for state, wanted in zip(states, which, strict=True)]
    observations, info = vector.reset(options={"state": given_states, "reset_mask": which})
    for index, wanted in enumerate(which):
        one, single = vector.env.reset(options={"state": states[index]} if wanted else None)
        assert_same({key: array[index] for key, array in observations.items()}, one)
        assert info["latency_s"][index] == (single["latency_s"] if wanted else 0)
    everywhere = vector.reset(options={"state": states})[1]["latency_s"]
    assert (everywhere[which] == info["latency_s"][which]).all()


def test_what_is_refused(solved):
    env, plan, _ = solved
    env.reset()
    before = env.get_state()
    changed, over = before.copy(), env.problem.new_states(1)
    changed[-1] += 1
    env.problem.finish_greedily(over)
    vector = gym.make_vec("MallocGame-v0", num_envs=2, workload=env.task)
    vector.reset()
    for state, sentence in ((changed, "No legal play"), (over[0], "is over"), ("a", "not")):
        with pytest.raises(EnvError, match=sentence):
            env.reset(options={"state": state})
        with pytest.raises(EnvError, match=sentence):
            vector.reset(options={"state": [before, state]})
        assert np.array_equal(env.get_state(), before), "a refused reset changes nothing"
    for wrong in ([before], before[None], 3, [before] * 3):
        with pytest.raises(EnvError, match="a list or array of 2"):
            vector.reset(options={"state": wrong})
    for decisions in (-1, env.problem.num_decisions, [0, 99]):
        with pytest.raises(EnvError, match="has states before decisions"):
            states_along(env.problem, plan, decisions)
    with pytest.raises(PlanError, match="another program"):
        states_along(MallocGameEnv("synthetic:chain?ops=4&accelerator=tpu-v4i").problem, plan, 0)
    for one_shot in (gym.make("MemPlace-Tiny-v0"), gym.make_vec("MemPlace-Tiny-v0", num_envs=2)):
        with pytest.raises(EnvError, match="is for games and steps"):
            one_shot.reset(options={"state": before})
