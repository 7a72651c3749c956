"""Ids of registered environments on the command line: which name is one, and the settings and the problem it names."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import nearest
from memplace_env.envs.registration import Formulation, formulation_of_id

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec


def settings_of_id(env_id: str, *, drawn: bool = False) -> dict[str, Any]:
    """Return the arguments with which an environment is registered; errors as in `environments.make_registered`.

    `drawn` is as there.
    """
    registered = registered_envs()
    if env_id not in registered:
        close = nearest(env_id, registered)
        hint = f"did you mean {close!r}?" if close else "see 'memplace envs'."
        raise AgentError(f"There is no environment {env_id!r}; {hint}")
    if "programs" in registered[env_id].kwargs and not drawn:
        raise AgentError(
            f"{env_id!r} draws another program in each episode, and agents plan one; take the id of a program, or "
            "train on several ids."
        )
    if env_id in {formulation.traits.env_id() for formulation in Formulation}:
        raise AgentError(f"{env_id} has no program of its own; pass an id that names one, see 'memplace envs'.")
    return dict(registered[env_id].kwargs)


def posed_by(model: str, formulation: Formulation | None = None) -> Formulation:
    """Return the formulation to play a model in: the given one, or else that of an id, or else one-shot.

    Raises:
        AgentError: if an id poses another problem. Steps and the dynamic formulation are about the one-shot one's task.
    """
    own = formulation or Formulation.ONE_SHOT
    if is_env_id(model):
        of_id = Formulation.GAME if formulation_of_id(model) is Formulation.GAME else Formulation.ONE_SHOT
        own = formulation or of_id
        if (own is Formulation.GAME) != (of_id is Formulation.GAME):
            raise AgentError(
                f"{model} is the id of a {of_id} environment and cannot be played as a {own} one; pass the id of one, "
                "or the model's name."
            )
    return own


def registered_envs() -> dict[str, EnvSpec]:
    """Return Gymnasium's spec of each of memplace's environments, by id."""
    import gymnasium as gym

    return {name: spec for name, spec in gym.registry.items() if str(spec.entry_point).startswith("memplace_env.")}


def is_env_id(name: str) -> bool:
    """Return whether a name is an environment's id by its form, and not a model."""
    prefixes = "|".join(formulation.traits.prefix for formulation in Formulation)
    return re.fullmatch(rf"({prefixes})-(.+-)?v\d+", name) is not None
