"""Environments on the command line: made from a model and its flags, or found by their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memplace_env.cli.console import note
from memplace_env.cli.env_ids import settings_of_id
from memplace_env.cli.model_flags import ModelFlags
from memplace_env.envs.registration import Formulation

if TYPE_CHECKING:
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
