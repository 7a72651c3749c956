"""MemPlaceSteps: equal to the plain reference, telescoping, and deciding what the one-shot environment decides."""

import pickle
from dataclasses import replace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import assume, given
from hypothesis import strategies as st

from memplace_env._lib.errors import ActionError, AgentError, EnvError, WorkloadError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.steps import StepsBatch, StepsEnv, StepsProblem, StepsVectorEnv
from memplace_env.envs.steps.observation import FEATURES, OBSERVATION_SIZE
from memplace_env.envs.steps.step_kernels import CURSOR, ESTIMATE, HEAD
from memplace_env.envs.wrappers import MeasurementNoise
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import HEURISTICS, native_report
from memplace_env.placement.simulator import BuiltinSimulator, evaluate_plan
from memplace_env.placement.validation import violations
from memplace_env.testing import RandomCosts
from tests.agents.tiny_tasks import tasks_with_roles
from tests.references import reference_compiler
from tests.references.reference_steps import Steps
from tests.strategies import accelerators, programs, programs_with_idle_ops, programs_with_pairs, tasks
from tests.thorough import examples

ORDERS = st.sampled_from(["density", "schedule"])
SEEDS = st.integers(0, 2**32)
WORKLOAD = "synthetic:diamond?ops=9&seed=1"


def small_chips(weights=None):
    return accelerators(weights).filter(lambda chip: chip.num_levels <= 3)


def problem_of(task, order="density"):
    """The problem, of tasks in which there is something to decide."""
    try:
        return StepsProblem(task, order)
    except WorkloadError as error:
        assert "nothing to decide" in str(error)  # noqa: PT017
        assert task.settings or not Steps(task, order).order
        assume(False)


def env_of(task, **settings):
    problem_of(task)
    return StepsEnv(task, **settings)


@examples(60)
@given(tasks(programs_with_idle_ops(8) | programs_with_pairs(programs_with_idle_ops(8)), small_chips()), ORDERS, SEEDS)
def test_kernels_equal_the_reference(task, order, seed):
    """Order, masks, gains, levels, observations and assignments of a random episode."""
    problem, plain, rng = problem_of(task, order), Steps(task, order), np.random.default_rng(seed)
    assert problem.tables.decision.tolist() == plain.order
    assert (problem.tables.all_backing_ps, problem.tables.all_fastest_ps) == (plain.all_backing, plain.all_fastest)
    batch, native = StepsBatch([problem], problem.new_states(1)), problem.tables.native_ps
    rows = batch.empty(1)
    while True:
        states = np.stack(batch.states)
        assert problem.done(states)[0] == batch.done()[0] == plain.over
        assert (problem.legal(states) == batch.legal()).all()
        assert np.flatnonzero(problem.legal(states)[0]).tolist() == plain.legal()
        assert states[0, ESTIMATE] == plain.estimate()
        assert batch.following[0] == (-1 if plain.over else plain.entry)
        seen = batch.observe()[0]
        np.testing.assert_allclose(seen, np.array(plain.observation(native), dtype=np.float32), rtol=1e-6, atol=1e-7)
        assert ((seen >= 0) & (seen <= 1)).all()
        assert problem.levels(states)[0].tolist() == plain.tensor_levels()
        if plain.over:
            break
        action = rng.integers(3, size=1)
        levels = batch.step(action, rows)
        assert (levels.gains[0], levels.played[0]) == plain.play(int(action[0]))
        assert np.array_equal(rows, batch.observe())
    assert batch.step(action, rows)[:2] == (np.array([0]), np.array([-1]))


@examples(60)
@given(tasks(accelerator=small_chips()), ORDERS, SEEDS)
def test_both_rewards_return_the_speedup_of_the_plan(task, order, seed):
    returns = []
    for dense in (False, True):
        env, rng, total, over = env_of(task, order=order, dense=dense), np.random.default_rng(seed), 0.0, False
        env.reset()
        while not over:
            before = env.plan()
            assert violations(task, before) == []
            _, gained, over, _, info = env.step(int(rng.integers(3)))
            assert over or dense or gained == 0
            total += gained
        returns.append(total)
        latency = evaluate_plan(task, env.plan()).latency_s
        assert env.report().latency_s == info["latency_s"] == latency
        assert total == pytest.approx(info["speedup"]) == pytest.approx(native_report(task).latency_s / latency)
    assert returns[0] == pytest.approx(returns[1])


@examples(100)
@given(tasks(programs() | programs_with_pairs(), small_chips("resident")), ORDERS, SEEDS)
def test_where_weights_stay_all_bytes_are_granted(task, order, seed):
    """The compiler moves tensors for want of an address only; if it moves none, the estimate is the plan's latency."""
    problem, rng = problem_of(task, order), np.random.default_rng(seed)
    states = problem.new_states(1)
    while not problem.done(states)[0]:
        problem.play(states, rng.integers(3, size=1))
    wanted = problem.levels(states)[0].tolist()
    assert reference_compiler.granted(task, wanted, "weights-before-results") == wanted
    scores = problem.scores(states)
    if scores.reassigned[0] == 0:
        assert scores.latency_s[0] == problem.latency_s(states)[0]


@examples(200)
@given(tasks_with_roles(ops=6, levels=3), ORDERS, SEEDS, st.booleans())
def test_steps_where_memories_have_roles(task, order, seed, masked):
    """Levels are those of the mask, no entry lies where none of its tensors may, and plans are valid."""
    problem, rng = problem_of(task, order), np.random.default_rng(seed)
    states = problem.new_states(1)
    while not problem.done(states)[0]:
        legal, entry = problem.legal(states)[0], states[0, CURSOR]
        wanted = rng.choice(np.flatnonzero(legal)) if masked else rng.integers(3)
        played = problem.play(states, np.array([wanted]))[1][0]
        assert legal[played]
        assert played == wanted if legal[wanted] else played > wanted or not legal[wanted:].any()
        may = task.allowed[problem.entry_of == entry].any(axis=0)
        assert may[min(played, task.backing)] or not (may[:-1] & legal[: task.backing]).any()
    problem.checked_state(states[0])
    assert violations(task, problem.plan(states[0])) == []


def test_chips_with_flash_are_environments():
    *fast, last = load_accelerator("nnp-i").levels
    chip = replace(load_accelerator("nnp-i"), levels=(*fast, replace(last, holds=("weights",), writable=False)))
    for env in (StepsEnv, OneShotEnv):
        check_env(env(WORKLOAD, chip, alignment=16, io_level="any"), skip_render_check=True)


def test_bytes_without_an_address_are_possible():
    """A finished episode may have `reassigned` > 0, as the docstring of `StepsEnv` says."""
    problem = gym.make("MemPlaceSteps-Swin-tiny-v0").unwrapped.problem
    states, rng = problem.new_states(128), np.random.default_rng(0)
    while not problem.done(states).all():
        problem.play(states, rng.integers(3, size=len(states)))
    scores = problem.scores(states)
    assert 0 < (scores.reassigned > 0).mean() < 1
    kept = scores.reassigned == 0
    assert (scores.latency_s[kept] == problem.latency_s(states)[kept]).all()


@pytest.mark.parametrize(
    "env_id", ["MemPlaceSteps-BERT-v0", "MemPlaceSteps-ResNet50-v0", "MemPlaceSteps-GPT2-edge-tpu-v0"]
)
def test_the_fastest_level_with_room_is_what_density_greedy_does(env_id):
    """In the order of density; greedy scores each level anew, so the two agree to a few per cent."""
    env = gym.make(env_id).unwrapped
    env.reset()
    over = False
    while not over:
        over, info = env.step(0)[2::2]
    greedy = evaluate_plan(env.task, HEURISTICS["density-greedy"](env.task)).latency_s
    assert info["latency_s"] == pytest.approx(greedy, rel=0.03)


@examples(30)
@given(tasks(accelerator=small_chips()), SEEDS, SEEDS)
def test_the_return_is_the_black_boxs(task, costs, seed):
    """Estimates are the cost arrays'; the end is the black box's, with either reward."""
    boxed = replace(task, simulator=BuiltinSimulator(RandomCosts(costs)))
    for dense in (False, True):
        env, rng, total, over = env_of(boxed, dense=dense), np.random.default_rng(seed), 0.0, False
        env.reset()
        while not over:
            _, gained, over, _, info = env.step(int(rng.integers(3)))
            total += gained
        latency = evaluate_plan(boxed, env.plan()).latency_s
        assert env.problem.one_shot.evaluated == 1
        assert info["latency_s"] == latency
        assert total == pytest.approx(info["speedup"]) == pytest.approx(native_report(boxed).latency_s / latency)


@pytest.mark.parametrize("dense", [False, True])
def test_noise_is_in_the_reward(dense):
    env = MeasurementNoise(gym.make("MemPlaceSteps-v0", workload=WORKLOAD, dense=dense), 0.2)
    env.reset(seed=3)
    total, over = 0.0, False
    while not over:
        _, gained, over, _, info = env.step(0)
        total += gained
    assert total == pytest.approx(info["speedup"]) == pytest.approx(info["native_latency_s"] / info["latency_s"])
    assert info["latency_s"] != pytest.approx(env.unwrapped.report().latency_s)


def test_observations_do_not_depend_on_program_or_chip():
    seen = [
        StepsEnv(WORKLOAD, accelerator=chip) for chip in ("nnp-i", "edge-tpu", "tpu-v4i", "ethos-u65", "intel-npu-4000")
    ] + [StepsEnv("ResNet50", dtype="int8")]
    assert {env.observation_space.shape for env in seen} == {(OBSERVATION_SIZE,)}
    assert all(env.action_space == seen[0].action_space for env in seen)
    assert len(set(FEATURES)) == len(FEATURES) == OBSERVATION_SIZE - 3


def test_two_levels_have_no_middle_one():
    env = StepsEnv("ResNet50", accelerator="edge-tpu", dtype="int8")
    env.reset()
    over = False
    while not over:
        assert not env.action_masks()[1]
        assert env.action_masks()[2]
        _, _, over, _, info = env.step(1)
        assert (info["played"], info["illegal"]) == (2, True)
    assert (env.levels() == 1).all()


def test_forms_hold_the_same():
    flat, parts = (gym.make("MemPlaceSteps-v0", workload=WORKLOAD, observation=form) for form in ("flat", "dict"))
    seen, (arrays, _) = flat.reset()[0], parts.reset()
    check_env(parts.unwrapped, skip_render_check=True)
    over, arrays = False, parts.reset()[0]
    while True:
        assert (seen[:3] == arrays["action_mask"]).all()
        assert (seen[3:] == arrays["features"]).all()
        if over:
            break
        seen, _, over, _, info = flat.step(0)
        arrays = parts.step(0)[0]
        assert (info["action_mask"] == arrays["action_mask"]).all()


# States.


def played(env, decisions, seed=0):
    rng = np.random.default_rng(seed)
    env.reset()
    for _ in range(decisions):
        env.step(int(rng.integers(3)))
    return env.get_state()


def test_states_travel():
    env, other = StepsEnv(WORKLOAD), StepsEnv(WORKLOAD)
    for decisions in (0, 3, env.problem.num_decisions):
        state = played(env, decisions)
        for copy in (other, pickle.loads(pickle.dumps(env))):
            copy.set_state(state)
            assert np.array_equal(copy.get_state(), state)
            assert copy.plan() == env.plan()


@pytest.mark.parametrize("by", [1, -1, 2**40, -(2**62)])
def test_every_field_is_checked(by):
    env = StepsEnv(WORKLOAD)
    state = played(env, 4)
    for field in range(len(state)):
        spoilt = state.copy()
        spoilt[field] += by
        if HEAD <= field < HEAD + 4 and 0 <= spoilt[field] <= 2:
            continue  # perhaps the state after other levels
        with pytest.raises(EnvError, match=r"^No decisions lead to this state; pass one that get_state gave"):
            env.set_state(spoilt)
    assert np.array_equal(env.get_state(), state)


@pytest.mark.parametrize(
    ("turned", "sentence"),
    [
        (lambda state: state[:-1], r"int64\[\d+\], as get_state gives it, not int64\[\d+\]"),
        (lambda state: state.astype(float), "not float64"),
        (lambda state: state.tolist(), "not list"),
    ],
)
def test_what_is_no_state(turned, sentence):
    env = StepsEnv(WORKLOAD)
    with pytest.raises(EnvError, match=sentence):
        env.set_state(turned(played(env, 3)))


# What is refused.


def test_actions_after_the_end_and_out_of_range():
    env = StepsEnv(WORKLOAD)
    played(env, env.problem.num_decisions)
    with pytest.raises(ActionError, match="The episode is over"):
        env.step(0)
    with pytest.raises(EnvError, match="The episode of this state is over"):
        env.reset(options={"state": env.get_state()})
    env.reset()
    for action in (3, -1):
        with pytest.raises(ActionError, match=rf"0 fast, 1 middle or 2 backing; this one holds {action}\.\.{action}"):
            env.step(action)
    with pytest.raises(ActionError, match=r"integers of shape \(4,\)"):
        StepsVectorEnv(4, workload=WORKLOAD).step([0, 1])


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"order": "size"}, "order must be 'density' or 'schedule', not 'size'"),
        ({"order": np.zeros(2)}, "order must be"),
        ({"reward": "latency"}, "reward must be one of speedup, percent, fraction, not 'latency'"),
        ({"reward": lambda scores: scores.speedup}, "reward must be"),
    ],
)
def test_settings_are_refused(wrong, sentence):
    with pytest.raises(EnvError, match=sentence):
        StepsEnv(WORKLOAD, **wrong)


@examples(10)
@given(tasks(accelerator=accelerators().filter(lambda chip: chip.num_levels > 3)))
def test_more_levels_than_actions(task):
    with pytest.raises(WorkloadError, match="for chips with two or three memory levels; 'random' has 4"):
        StepsEnv(task)


def test_no_agent_plays_them():
    import memplace_agents

    for agent in (memplace_agents.DensityGreedy(), memplace_agents.RandomSearch(), memplace_agents.GreedyPlayer()):
        with pytest.raises(AgentError, match="is not"):
            agent.solve(gym.make("MemPlaceSteps-v0", workload=WORKLOAD), budget=3)
