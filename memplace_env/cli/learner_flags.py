"""The flags that only learning agents take, and the settings that `--config` and `--set NAME=VALUE` select."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import typer

from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import instead
from memplace_env.cli.shared_options import gathered

if TYPE_CHECKING:
    from memplace_agents import Agent
    from memplace_agents.built_in_agents import AgentSpec

_OPTIONS = {
    "policy": Annotated[
        Path | None,
        typer.Option("--policy", help="File of a learned policy to start from, as 'memplace train' wrote it."),
    ],
    "config": Annotated[
        str | None,
        typer.Option("--config", metavar="NAME", help="Named settings of the agent, such as paper for egrl."),
    ],
    "settings": Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="One setting of the agent; repeat."),
    ],
}


class LearnerFlags(NamedTuple):
    """Policy and settings that a learning agent begins with.

    Attributes:
        policy: file of a policy to start from.
        config: name of its settings, None for its own choice.
        settings: NAME=VALUE each, over those.
    """

    policy: Path | None = None
    config: str | None = None
    settings: Sequence[str] | None = None

    @property
    def given(self) -> list[str]:
        """The flags that were given."""
        return [flag for flag, value in zip(("--policy", "--config", "--set"), self, strict=True) if value]

    def make(self, spec: AgentSpec, **options: Any) -> Agent[Any]:
        """Return the agent with the policy and settings of these flags.

        Args:
            spec: the agent; one that learns, if any flag was given.
            options: further keyword arguments of its class.

        Raises:
            AgentError: if a package it needs is missing, or a setting or the policy makes no sense.
        """
        if spec.missing_packages:
            raise AgentError(spec.missing_packages)
        if self.policy is not None:
            options["policy"] = self.policy
        if self.config is not None or self.settings:
            if not spec.named_settings:
                raise AgentError(f"{spec.name} has no settings to choose; leave out --config and --set.")
            options["config"] = configured(
                spec.name, spec.named_settings, self.config or "default", self.settings or ()
            )
        agent: Agent[Any] = spec.make(**options)
        return agent


learner_flags = gathered("learner", LearnerFlags, _OPTIONS)
"""A decorator that gives a command `learner: LearnerFlags`, and the command line an option for each flag."""


def configured(agent: str, configs: Mapping[str, Any], name: str, settings: Sequence[str]) -> Any:
    """Return one of an agent's named settings, a dataclass, with some fields changed.

    Raises:
        AgentError: naming what is unknown, with the closest name, or the value that does not fit.
    """
    if name not in configs:
        raise AgentError(f"{agent} has no --config {name!r}; {instead(name, configs)}")
    config = configs[name]
    kinds = {field.name: get_type_hints(type(config))[field.name] for field in fields(config)}
    values: dict[str, Any] = {}
    for text in settings:
        field, equals, value = text.partition("=")
        if not equals:
            raise AgentError(f"--set takes NAME=VALUE, such as {next(iter(kinds))}=..., not {text!r}.")
        if field not in kinds:
            raise AgentError(f"{agent} has no setting {field!r}; {instead(field, kinds)}")
        if field in values:
            raise AgentError(f"--set sets {field!r} twice; pass it once.")
        values[field] = _value(text, kinds[field], value)
    return replace(config, **values)


def _value(setting: str, kind: type, text: str) -> Any:
    """Return the value of a text for a field of that type."""
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
