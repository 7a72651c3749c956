"""Environments on the command line: made from a model and its flags, or found by their ids."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import nearest
from memplace_env.cli.console import note
from memplace_env.cli.model_flags import ModelFlags
from memplace_env.envs.registration import Formulation, formulation_of_id

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv
    from memplace_env.placement.task import Task
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan

    Env = OneShotEnv | MallocGameEnv


def make_env(model: str, flags: ModelFlags, formulation: Formulation) -> Env:
    """Return the environment of a model, without wrappers.

    Raises:
        MemPlaceError: naming what cannot be resolved, or why the formulation cannot be played on it.
    """
    return _made(formulation.traits.env_id(), flags.arguments(model))


def make_game(model: str, flags: ModelFlags) -> MallocGameEnv:
    """Return the game of a model; see `make_env`."""
    env: Any = make_env(model, flags, Formulation.GAME)
    game: MallocGameEnv = env
    return game


def make_registered(env_id: str, drawn: bool = False, **arguments: Any) -> Env:
    """Return the environment with that id, with these arguments beside its settings.

    Args:
        env_id: the id.
        drawn: whether it may be one that draws its programs.
        arguments: of the environment.

    Raises:
        AgentError: if memplace has none with that id, or it has no program of its own.
    """
    settings_of_id(env_id, drawn=drawn)
    return _made(env_id, arguments)


def settings_of_id(env_id: str, *, drawn: bool = False) -> dict[str, Any]:
    """Return the arguments with which an environment is registered; `drawn` and errors as in `make_registered`."""
    registered = registered_envs()
    if env_id not in registered:
        close = nearest(env_id, registered)
        hint = f"did you mean {close!r}?" if close else "see 'memplace envs'."
        raise AgentError(f"There is no environment {env_id!r}; {hint}")
    if "split" in registered[env_id].kwargs and not drawn:
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


def baseline_of(env: Env) -> EvaluatedPlan:
    """Return the plan that speed-ups are over in the environment's formulation."""
    from memplace_env.report.plans.evaluated_plan import all_backing_baseline, native_baseline

    return (all_backing_baseline if env.formulation is Formulation.GAME else native_baseline)(env.task)


def _made(env_id: str, arguments: dict[str, Any]) -> Env:
    import gymnasium as gym

    unwrapped: Any = gym.make(env_id, disable_env_checker=True, **arguments).unwrapped
    env: Env = unwrapped
    note_no_mechanisms(env.task)
    return env


def note_no_mechanisms(task: Task) -> None:
    """Write a line to stderr if the event simulator has nothing to add to the task's costs."""
    from memplace_env.machine.accelerator.event_description import NO_MECHANISMS
    from memplace_env.placement.simulator import EventSimulator

    simulator = task.simulator
    if isinstance(simulator, EventSimulator) and simulator.mechanisms_of(task) == NO_MECHANISMS:
        note(
            f"{task.accelerator.name} describes no mechanisms, so --simulator {simulator.name} equals builtin here; "
            "without it agents can prove a bound."
        )
