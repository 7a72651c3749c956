"""The game in JAX: every integer and mask is that of the compiled kernels, or the state says: too few slots."""

from contextlib import nullcontext

import gymnasium as gym
import numpy as np
import pytest

pytest.importorskip("jax")
import jax
import jax.numpy as jnp

from memplace_env._lib.errors import EnvError
from memplace_env.envs.jax import jax_game
from memplace_env.envs.jax.gymnax_face import GymnaxFace
from memplace_env.envs.jax.jax_arrays import replayed, stacked
from memplace_env.envs.jax.jax_game_tables import game_params, rounded_game
from memplace_env.envs.malloc_game import GameBatch, MallocGameProblem
from memplace_env.envs.malloc_game import state as fields
from memplace_env.placement.resolve_task import resolve_task

FEW = {False: ("Tiny", "DCN-V2-ethos-u65"), True: ("Tiny", "NeRF-edge-tpu")}
"""Programs by whether times are picoseconds; ops of the second one reserve bytes."""
MANY = """
    BERT GPT2 ViT Swin-tiny T5-small ResNet50-intel-npu-4000 BERT-ethos-u65 MatMul-strassen2 ResNet101-edge-tpu
""".split()
SLOTS = {"ResNet101-edge-tpu": 128}
LARGEST_ERROR = 5e-7
"""Error of an observation in float32: a few units in the last place."""
HEAD = [
    fields.USE, fields.OP, fields.QUEUE_HEAD, fields.QUEUE_TAIL, fields.FINAL_PS, fields.STALL_PS, fields.TAIL_PS,
    fields.OPEN_PS, fields.ESTIMATE, fields.FAST_PS, fields.BACKING_PS, fields.MASK,
]  # fmt: skip
"""Fields of the kernels' states in the order of `GameState`."""


def problem_of(name):
    return gym.make(f"MallocGame-{name}-v0").unwrapped.problem


def kernels_of(problem, picoseconds, games):
    """Games of the kernels on the rounded tables."""
    rounded = MallocGameProblem(problem.task)
    vars(rounded)["unchanging"] = problem.unchanging  # derived from the tables in picoseconds
    rounded.tables = rounded_game(problem, picoseconds)
    rounded.all_backing_ps = int(rounded.tables.rest_ps[0])
    return GameBatch([rounded] * games, rounded.new_states(games), True)


def play_beside_the_kernels(names, picoseconds, games, slots=64):
    """Play random games, with illegal actions too, of all programs side by side; those flagged may differ.

    Returns:
        Problems, the last state, returns, and in which games no difference was seen.
    """
    problems = [problem_of(name) for name in names]
    with jax.enable_x64(True) if picoseconds else nullcontext():
        params = [game_params(problem, slots=slots, picoseconds=picoseconds) for problem in problems]
        ((order, params),) = stacked(params)
        problems = [problems[index] for index in order]
        batches = [kernels_of(problem, picoseconds, games) for problem in problems]
        observed = [batch.observe() for batch in batches]
        rng, keys = np.random.default_rng(0), jnp.arange(games)
        begin = jax.vmap(lambda one: jax.vmap(lambda _: jax_game.init(None, one))(keys))
        step = jax.jit(jax.vmap(jax.vmap(jax_game.step, in_axes=(0, 0, None))))
        (state, seen), returns = jax.jit(begin)(params), 0.0
        same, actions = np.ones((len(names), games), dtype=bool), np.empty((len(names), games), dtype=np.int64)
        for _ in range(max(problem.num_decisions for problem in problems) + 1):
            mask = (np.asarray(state.mask) << np.arange(3)).sum(-1)
            mine = np.stack([*map(np.asarray, state[: len(HEAD) - 1]), mask], axis=-1)
            theirs = np.array([[one[HEAD] for one in batch.states] for batch in batches])
            same &= (mine == theirs).all(-1)
            errors = np.abs(np.asarray(seen) - np.stack(observed)).max(-1)
            exact = ~np.asarray(state.inexact)
            assert same[exact].all()
            assert errors[exact].max(initial=0) <= (1e-16 if picoseconds else LARGEST_ERROR)
            for program, batch in enumerate(batches):
                wanted = (batch.legal() * rng.random((games, 3)) * (2, 1, 1)).argmax(1)
                actions[program] = np.where(rng.random(games) < 0.05, rng.integers(3, size=games), wanted)
                batch.step(actions[program], observed[program], False)
            state, seen, reward, _ = step(state, jnp.asarray(actions, jnp.int32), params)
            returns = returns + np.asarray(reward)
    return problems, jax.tree.map(np.asarray, state), returns, same


@pytest.mark.slow
@pytest.mark.parametrize("picoseconds", [False, True])
def test_every_integer_is_the_kernels(picoseconds):
    """Programs are padded to one size, and games that are over stay as they are."""
    problems, state, returns, same = play_beside_the_kernels(FEW[picoseconds], picoseconds, games=3)
    assert same.all()
    assert not state.inexact.any()
    assert any(leaf.dtype.itemsize == 8 for leaf in jax.tree.leaves(state)) == picoseconds
    for problem, actions, found in zip(problems, state.actions, returns, strict=True):
        latency = problem.final_latency_s(replayed(problem, actions)) / (problem.all_backing_ps * 1e-12)
        np.testing.assert_allclose(found, 100 * (1 - latency), atol=2e-4)


@pytest.mark.slow
def test_too_few_slots_are_flagged_before_games_differ():
    _, state, _, same = play_beside_the_kernels(["ResNet18-edge-tpu"], False, games=8, slots=6)
    assert (~same).any()
    assert state.inexact[~same].all()


@pytest.mark.thorough
@pytest.mark.parametrize("picoseconds", [False, True])
@pytest.mark.parametrize("name", MANY)
def test_every_integer_of_more_ids_is_the_kernels(name, picoseconds):
    _, _, _, same = play_beside_the_kernels([name], picoseconds, games=16, slots=SLOTS.get(name, 64))
    assert same.all()


def test_what_jax_does_not_play_is_refused():
    with pytest.raises(EnvError, match="take the place of operands"):
        game_params(MallocGameProblem(resolve_task("MobileNetV2", "tpu-v4i", in_place="rows")))
    with pytest.raises(EnvError, match="64 bits"):
        game_params(problem_of("Tiny"), picoseconds=True)


def test_the_face_plays_games():
    face = GymnaxFace(game_params(problem_of("Tiny")))
    first, state = jax.eval_shape(face.reset, None)
    assert (face.name, face.observation_space().shape) == ("MallocGame", first.shape)
    assert jax.eval_shape(face.step, None, state, 0)[:2] == (first, state)
