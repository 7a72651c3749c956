"""Environments on the command line: made of a model and its flags, or found by their ids."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from memplace_env.cli.model_flags import ModelFlags
from memplace_env.errors import AgentError
from memplace_env.hints import nearest
from memplace_env.registration import Formulation

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from memplace_env.analysis import Judged
    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv

    Env = OneShotEnv | MallocGameEnv


def make_env(model: str, flags: ModelFlags, formulation: Formulation) -> Env:
    """The environment of a model, without wrappers.

    Raises:
        MemPlaceError: naming what cannot be resolved, or what the formulation cannot be played on.
    """
    return _made(formulation.traits.env_id(), flags.arguments(model))


def make_game(model: str, flags: ModelFlags) -> MallocGameEnv:
    """The game of a model; see `make_env`."""
    from memplace_env.envs.malloc_game import MallocGameEnv

    env = make_env(model, flags, Formulation.GAME)
    assert isinstance(env, MallocGameEnv)
    return env


def make_registered(env_id: str) -> Env:
    """The environment with that id.

    Raises:
        AgentError: if memplace has none with that id.
    """
    known = registered_envs()
    if env_id not in known:
        close = nearest(env_id, known)
        hint = f"did you mean {close!r}?" if close else "see 'memplace envs'."
        raise AgentError(f"There is no environment {env_id!r}; {hint}")
    return _made(env_id, {})


def registered_envs() -> dict[str, EnvSpec]:
    """What Gymnasium knows of each of memplace's environments, by id."""
    import gymnasium as gym

    return {name: spec for name, spec in gym.registry.items() if str(spec.entry_point).startswith("memplace_env.")}


def is_env_id(name: str) -> bool:
    """Whether it looks like an environment's id, and not like a model."""
    return re.search(r"-v\d+$", name) is not None


def formulation_of(env: Env) -> Formulation:
    """Which formulation the environment poses."""
    from memplace_env.envs.malloc_game import MallocGameEnv

    return Formulation.GAME if isinstance(env, MallocGameEnv) else Formulation.ONE_SHOT


def baseline_of(env: Env) -> Judged:
    """What speed-ups are against in the environment's formulation."""
    from memplace_env.analysis import all_backing_baseline, native_baseline

    return (all_backing_baseline if formulation_of(env) is Formulation.GAME else native_baseline)(env.task)


def _made(env_id: str, arguments: dict[str, Any]) -> Env:
    import gymnasium as gym

    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv

    env = gym.make(env_id, disable_env_checker=True, **arguments).unwrapped
    assert isinstance(env, OneShotEnv | MallocGameEnv)
    return env
