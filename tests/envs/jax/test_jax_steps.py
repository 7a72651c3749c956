"""Steps in JAX: integers are those of the compiled kernels, in both number systems, and returns the compiler's."""

from contextlib import nullcontext
from functools import cache

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("jax")
import jax
import jax.numpy as jnp

from memplace_env._lib.errors import EnvError
from memplace_env.envs.jax import jax_arrays, jax_steps
from memplace_env.envs.jax.gymnax_face import GymnaxFace
from memplace_env.envs.jax.jax_arrays import plans, replayed, split_problems, stacked
from memplace_env.envs.jax.jax_game_tables import game_params
from memplace_env.envs.jax.jax_steps import rounded_steps, steps_params
from memplace_env.envs.steps import step_kernels as kernels
from memplace_env.envs.steps.observation import OBSERVATION_SIZE
from memplace_env.envs.steps.problem import StepsProblem
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import BuiltinSimulator
from memplace_env.placement.validation import violations

FEW = ("Tiny", "NeRF", "HiFi-GAN-edge-tpu", "NeRF-intel-npu-4000")
"""Three levels twice, the first with few entries; two levels; streamed weights."""
MANY = """
    ResNet50 BERT GPT2 ViT DenseNet121 Swin-tiny BERT-edge-tpu T5-small-ethos-u65 MobileNetV2-ethos-u85-2048
    Evoformer-pairs-tpu-v4i NeRF-intel-npu-4000 MobileNetV2 Tiny HiFi-GAN-edge-tpu
""".split()
LARGEST_ERROR = 5e-7
"""Error of an observation in float32: a few units in the last place."""


@cache
def problem_of(name):
    return gym.make(f"MemPlaceSteps-{name}-v0").unwrapped.problem


def numbers(state, episode):
    """The integers of an episode as `step_kernels` has them in the head of its state."""
    high, low = np.moveaxis(np.asarray(state.taken[episode], dtype=np.int64), -1, 0)
    mask = (np.asarray(state.mask[episode]) << np.arange(3)).sum(-1)
    parts = [state.cursor, state.estimate, None, state.fewest, state.saved, state.missed]
    head = [np.asarray(part[episode]) if part is not None else mask for part in parts]
    return np.concatenate([np.atleast_1d(part) for part in (*head, high * 2**16 + low)])


def play_beside_the_kernels(names, picoseconds, episodes):
    """Play random levels, illegal ones too, of all programs side by side; returns problems, last state and returns."""
    problems = [problem_of(name) for name in names]
    with jax.enable_x64(True) if picoseconds else nullcontext():
        params = [steps_params(problem, estimate=True, picoseconds=picoseconds) for problem in problems]
        ((order, params),) = stacked(params)
        problems = [problems[index] for index in order]
        tables = [rounded_steps(problem, picoseconds) for problem in problems]
        states = [np.repeat(kernels.first_state(one)[None], episodes, axis=0) for one in tables]
        rng, keys = np.random.default_rng(0), jnp.arange(episodes)
        begin = jax.vmap(lambda one: jax.vmap(lambda _: jax_steps.init(None, one))(keys))
        step = jax.jit(jax.vmap(jax.vmap(jax_steps.step, in_axes=(0, 0, None))))
        (state, seen), returns, row = jax.jit(begin)(params), 0.0, np.empty(OBSERVATION_SIZE, np.float32)
        for _ in range(max(problem.num_decisions for problem in problems) + 1):
            mine, seen = jax.tree.map(np.asarray, state), np.asarray(seen)
            for program, (of_program, all_) in enumerate(zip(tables, states, strict=True)):
                for episode in range(episodes):
                    where = program, episode
                    assert numbers(mine, where).tolist() == all_[episode, : kernels.HEAD].tolist()
                    kernels.observe_state(of_program, all_[episode], row)
                    assert np.abs(seen[where] - row).max() <= (1e-16 if picoseconds else LARGEST_ERROR)
            actions = rng.integers(3, size=(len(problems), episodes))
            state, seen, reward, over = step(state, jnp.asarray(actions, jnp.int32), params)
            returns = returns + np.asarray(reward)
            played = np.empty((2, episodes), dtype=np.int64)
            for of_program, all_, wanted in zip(tables, states, actions, strict=True):
                kernels.step_all(of_program, all_, wanted, *played)
        assert np.asarray(over).all()
    return problems, jax.tree.map(np.asarray, state), returns


@pytest.mark.parametrize("picoseconds", [False, True])
def test_every_integer_is_the_kernels(picoseconds):
    """Programs are padded to one size, and episodes that are over stay as they are."""
    problems, state, returns = play_beside_the_kernels(FEW, picoseconds, episodes=2)
    assert any(leaf.dtype.itemsize == 8 for leaf in jax.tree.leaves(state)) == picoseconds
    for problem, actions, estimates in zip(problems, state.actions, returns, strict=True):
        states = replayed(problem, actions)
        native_s = problem.tables.native_ps * 1e-12
        np.testing.assert_allclose(estimates, native_s / problem.latency_s(states), rtol=1e-6)
        if not problem.task.streams_weights:
            scores = problem.scores(states)
            np.testing.assert_allclose(estimates[scores.reassigned == 0], scores.speedup[scores.reassigned == 0], 1e-6)
            assert violations(problem.task, plans(problem, actions[:1])[0]) == []


@pytest.mark.thorough
@pytest.mark.parametrize("picoseconds", [False, True])
@pytest.mark.parametrize("name", MANY)
def test_every_integer_of_more_ids_is_the_kernels(name, picoseconds):
    play_beside_the_kernels([name], picoseconds, episodes=16)


def test_estimates_are_refused_unless_asked_for():
    with pytest.raises(EnvError, match=r"streamed.*estimate=True"):
        steps_params(problem_of("NeRF-intel-npu-4000"))
    with pytest.raises(EnvError, match="black box"):
        steps_params(StepsProblem(problem_of("Tiny").task.with_simulator(BuiltinSimulator())))


def test_what_jax_does_not_play_is_refused():
    with pytest.raises(EnvError, match="in_place"):
        steps_params(StepsProblem(resolve_task("MobileNetV2", "nnp-i", in_place="rows")))
    with pytest.raises(EnvError, match="64 bits"):
        steps_params(problem_of("Tiny"), picoseconds=True)
    with pytest.raises(EnvError, match="finished"):
        replayed(problem_of("Tiny"), jax_steps.init(None, steps_params(problem_of("Tiny")))[0].actions[None])


def test_bad_arguments_are_refused_in_a_sentence():
    problem, game = problem_of("Tiny"), gym.make("MallocGame-Tiny-v0").unwrapped.problem
    steps, actions = steps_params(problem), np.zeros((1, problem.num_decisions), dtype=np.int8)
    for call, wanted, arguments in [
        (steps_params, "StepsProblem.*MemPlaceSteps-BERT-v0", ["id", game]),
        (game_params, "MallocGameProblem.*MallocGame-BERT-v0", ["id", problem]),
        (lambda slots: game_params(game, slots=slots), "integer in 1..32767", [-1, 0, 2.5, True, 2**15]),
        (lambda classes: stacked([steps], classes), "integer of at least 1", [0, 1.5]),
        (stacked, "list of what steps_params", [[], steps, ["id"], [steps, game_params(game)]]),
        (lambda formulation: split_problems(formulation, "train"), "must be one of", ["stepz", "one-shot", 1]),
        (lambda split: split_problems("steps", split), "must be one of train", ["synthetic", None]),
        (lambda wrong: replayed(problem, wrong), "of shape|not 9", [actions[0], actions + 9, actions / 2, 0]),
        (lambda wrong: GymnaxFace(wrong).reset(None), "steps_params or game_params", [None, problem]),
    ]:
        for wrong in arguments:
            with pytest.raises(EnvError, match=wanted):
                call(wrong)


def test_times_in_units_are_short_enough_and_positive():
    rounded = rounded_steps(problem_of("MobileNetV2"))
    assert rounded.all_backing_ps <= jax_arrays.LONGEST
    assert ((rounded.costs.use_ps > 0) == (problem_of("MobileNetV2").tables.costs.use_ps > 0)).all()


def test_the_face_begins_episodes_anew():
    params = steps_params(problem_of("Tiny"))
    face = GymnaxFace(params)
    first, state = face.reset(None)
    assert (face.name, face.action_space(params).n) == ("MemPlaceSteps", face.num_actions)
    assert np.asarray(first) in face.observation_space(params)
    step = jax.jit(face.step)
    for number in range(2 * problem_of("Tiny").num_decisions):
        seen, state, reward, over, cut, info = step(None, state, 0, params)
        assert over == (reward > 0) == ((number + 1) % problem_of("Tiny").num_decisions == 0)
        assert (seen == (first if over else info["final_observation"])).all()
        assert (info["terminated"], info["truncated"], cut) == (over, False, False)
