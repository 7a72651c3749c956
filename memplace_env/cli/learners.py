"""The agents that learn, and the settings that the command line can give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from difflib import get_close_matches
from importlib.util import find_spec
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from memplace_env.errors import AgentError

if TYPE_CHECKING:
    from agents import Agent

CHECKPOINT, POLICY = "checkpoint.pt", "policy.pt"
"""What a learner leaves in the folder of a run."""

PolicyFlag = Annotated[
    Path | None, typer.Option("--policy", help="File of a learned policy to start from, as 'memplace train' wrote it.")
]
ConfigFlag = Annotated[
    str | None, typer.Option("--config", metavar="NAME", help="Named settings of the agent, such as paper for egrl.")
]
SetFlag = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="One setting of the agent; repeat.")
]


def _egrl_configs() -> Mapping[str, Any]:
    from agents.egrl.config import CONFIGS

    return CONFIGS


def _muzero_configs() -> Mapping[str, Any]:
    from agents.muzero.config import CONFIGS

    return CONFIGS


class Learner(NamedTuple):
    """An agent that learns a policy while it searches.

    Attributes:
        needs: modules beyond those that memplace always has.
        several: whether it trains one policy on several workloads at once, by `train(envs, ...)`.
        resumes: whether it keeps checkpoints and goes on from them.
        configs: its named settings, of one dataclass; None if it has none to choose.
    """

    needs: tuple[str, ...]
    several: bool = False
    resumes: bool = False
    configs: Callable[[], Mapping[str, Any]] | None = None

    @property
    def missing(self) -> list[str]:
        """Modules that are not installed."""
        return [module for module in self.needs if find_spec(module) is None]

    def output(self, folder: Path) -> dict[str, Any]:
        """Keyword arguments that make it keep what it learns in a folder, and go on from what is there."""
        return {"out": folder} | ({"resume": True} if self.resumes else {})


_SB3 = ("torch", "torch_geometric", "stable_baselines3", "sb3_contrib", "tensorboard")

LEARNERS = {
    "egrl": Learner(("torch", "torch_geometric", "tensorboard"), several=True, resumes=True, configs=_egrl_configs),
    "muzero": Learner(("torch", "tensorboard"), several=True, resumes=True, configs=_muzero_configs),
    "ppo": Learner(_SB3),
    "maskable-ppo": Learner(_SB3),
    "a2c": Learner(_SB3),
}
"""Which of the agents learn, by name on the command line."""


def to_install(name: str) -> str | None:
    """What a learner lacks and how to get it, as a clause; None if it lacks nothing."""
    missing = LEARNERS[name].missing if name in LEARNERS else []
    return f'{name} needs {" and ".join(missing)}: pip install "memplace[agents]"' if missing else None


def learner_flags(config: str | None, settings: Sequence[str], policy: Path | None) -> list[str]:
    """Which of the flags that only learners take were given."""
    return [flag for flag, value in (("--policy", policy), ("--config", config), ("--set", settings)) if value]


def make_learner(
    name: str, config: str | None = None, settings: Sequence[str] = (), policy: Path | None = None, **options: Any
) -> Agent:
    """The learner with that name.

    Args:
        name: one of `LEARNERS`.
        config: name of its settings, None for its own choice.
        settings: NAME=VALUE each, over those.
        policy: file of a policy to start from.
        options: further keyword arguments of its class.

    Raises:
        AgentError: if a module it needs is missing, or a setting or the policy makes no sense.
    """
    from agents import make_agent

    learner = LEARNERS[name]
    lacking = to_install(name)
    if lacking:
        raise AgentError(lacking)
    if policy is not None:
        options["policy"] = policy
    if config is not None or settings:
        if learner.configs is None:
            raise AgentError(f"{name} has no settings to choose; leave out --config and --set.")
        options["config"] = configured(name, learner.configs(), config or "default", settings)
    try:
        return make_agent(name, **options)
    except ImportError as error:
        raise AgentError(f"{name} cannot be loaded ({error}); install its packages anew.") from error


def configured(agent: str, configs: Mapping[str, Any], name: str, settings: Sequence[str]) -> Any:
    """One of an agent's named settings, a dataclass, with some fields changed.

    Raises:
        AgentError: naming what is not known, with the closest there is, or the value that does not fit.
    """
    if name not in configs:
        raise AgentError(f"{agent} has no --config {name!r}; {_instead(name, configs)}.")
    config = configs[name]
    kinds = {field.name: get_type_hints(type(config))[field.name] for field in fields(config)}
    values: dict[str, Any] = {}
    for text in settings:
        field, equals, value = text.partition("=")
        if not equals:
            raise AgentError(f"--set takes NAME=VALUE, such as {next(iter(kinds))}=..., not {text!r}.")
        if field not in kinds:
            raise AgentError(f"{agent} has no setting {field!r}; {_instead(field, kinds)}.")
        if field in values:
            raise AgentError(f"--set sets {field!r} twice; pass it once.")
        values[field] = _value(text, kinds[field], value)
    return replace(config, **values)


def _value(setting: str, kind: type, text: str) -> Any:
    """What the text means for a field of that type."""
    if kind is bool:
        if text.lower() in ("true", "false"):
            return text.lower() == "true"
        raise AgentError(f"--set {setting}: pass true or false.")
    if kind is str:
        return text
    if kind not in (int, float):
        raise AgentError(f"--set {setting}: this setting can be changed in Python only.")
    number = nan
    with suppress(ValueError):
        number = int(text) if kind is int else float(text)
    if not isfinite(number):
        raise AgentError(f"--set {setting}: pass a {'whole ' if kind is int else ''}number.")
    return number


def _instead(name: str, known: Mapping[str, Any]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"
