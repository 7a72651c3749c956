"""Corrupt states for `set_state` of both formulations; an accepted one must be a state that play reaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import memplace_env  # noqa: F401
from tests.fuzz import Wrong, accepted

NAME = "states of environments"
CASES = 20_000

_GAMES = (
    "synthetic:random?ops=6&seed=3",
    "synthetic:diamond?ops=9&seed=1&accelerator=tpu-v4i",
    "synthetic:chain?ops=5",
)
_HEAD = 15
_ODD = (-(2**63), 2**63 - 1, 2**40, -1, 0, 1, 2, 7, 255, 2**31, -(2**31))


def prepare(folder: Path) -> list[Any]:
    """Environments of both formulations, and a second game of the same length as another one."""
    del folder
    games = [gym.make("MallocGame-v0", workload=name, accelerator="tpu-v4i").unwrapped for name in _GAMES]
    envs = [*games, *(gym.make("MemPlace-v0", workload=name).unwrapped for name in (_GAMES[0], _GAMES[2]))]
    for env in envs:  # so that no case waits for kernels
        _play_on(env)
    return envs


def case(prepared: list[Any], rng: np.random.Generator, folder: Path) -> bool:
    """Play a little, pass a corrupt state, and if it is accepted play on from there."""
    del folder
    env = prepared[rng.integers(len(prepared))]
    env.reset(seed=int(rng.integers(2**32)))
    env.action_space.seed(int(rng.integers(2**32)))
    game = hasattr(env, "legal_actions")
    for _ in range(int(rng.integers(env.problem.num_decisions)) if game else 1):
        env.step(env.action_space.sample())
    state = env.get_state()
    other = prepared[rng.integers(len(prepared))].get_state()
    spoilt = _spoil(state, other, rng)
    env.set_state(spoilt)
    if game and not np.array_equal(spoilt, state) and not _is_reached(env, spoilt):
        raise Wrong("a state was taken that no play of its decisions leads to")
    _play_on(env)
    return True


def _play_on(env: Any) -> None:
    with accepted():
        for _ in range(20):
            _, _, over, _, _ = env.step(env.action_space.sample())
            env.plan()
            if over:
                break
        env.fork().set_state(env.get_state())


def _spoil(state: Any, other: Any, rng: np.random.Generator) -> Any:
    way, spoilt = rng.integers(9), state.copy()
    places = rng.integers(0, len(spoilt), int(rng.integers(1, 4)))
    if way == 0:
        spoilt[places] = rng.choice(_ODD, len(places))
    elif way == 1:
        spoilt[places] += rng.integers(-3, 4, len(places))
    elif way == 2:
        spoilt[rng.integers(min(_HEAD, len(spoilt)))] += int(rng.integers(-2, 3))
    elif way == 3:
        spoilt[places] ^= np.int64(1) << rng.integers(0, 63, len(places))
    elif way == 4:
        spoilt = rng.permutation(spoilt)
    elif way == 5:
        spoilt = rng.integers(-(2**63), 2**63 - 1, len(spoilt))
    elif way == 6:
        spoilt = other
    elif way == 7:
        cut = spoilt[: rng.integers(len(spoilt) + 1)]
        forms = (
            cut,
            spoilt.astype(float),
            spoilt.astype(object),
            spoilt[None],
            spoilt.tolist(),
            bytes(spoilt),
            None,
            "",
        )
        spoilt = forms[rng.integers(len(forms))]
    else:
        spoilt = np.concatenate([spoilt, spoilt])[::2] if rng.random() < 0.5 else np.repeat(spoilt, 2)[::2]
    return spoilt


def _is_reached(env: Any, state: Any) -> bool:
    """Return True if play on arrays alone reaches the state, with the actions that its levels allow."""
    problem = env.problem
    reached = problem.new_states(1)
    for use in range(int(state[0])):
        level, tensor = state[problem.layout.level + use], problem.program.use_tensor[use]
        copied = state[problem.layout.sent + tensor] == reached[0, 1] + 1
        legal = problem.legal(reached)[0]
        wanted = 2 if level else 0 if copied or not legal[1] else 1
        if not legal[wanted]:
            return False
        problem.play(reached, np.array([wanted]))
    return bool(np.array_equal(reached[0], state))
