"""Options that several commands take, and a decorator that hands a group of them to a command as one object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import wraps
from math import isfinite, nan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, get_type_hints

import typer

from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import instead

if TYPE_CHECKING:
    from memplace_agents import Agent
    from memplace_agents.built_in_agents import AgentSpec


Command = Callable[..., None]

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A zoo name, an .onnx, .tflite, .mlir or .program file, synthetic:chain?ops=24, or an id of 'memplace "
        "envs' with its settings; a flag replaces one of them.",
    ),
]
PlayedFormulation = Literal["one-shot", "steps", "game", "dynamic"]
"""Formulations that agents play."""
FormulationFlag = Annotated[
    PlayedFormulation | None,
    typer.Option(
        "--formulation",
        show_default="one-shot; for an id its own",
        help="one-shot: a level for each tensor; steps: the same one by one, by --agent ppo; game: use by use; "
        "dynamic: as one-shot, but tensors may move between levels while the program runs.",
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]
BudgetFlag = Annotated[int, typer.Option("--budget", min=1, help="Plans that each search evaluates at most.")]
SeedFlag = Annotated[int, typer.Option("--seed", min=0, help="Seed of all randomness.")]


def _positive(option: typer.CallbackParam, value: float | None) -> float | None:
    if value is not None and not value > 0:
        raise AgentError(f"{option.opts[0]} must be more than 0, not {value:g}.")
    return value


TimeLimitFlag = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        callback=_positive,
        help="Most seconds. By default work is limited instead, so a busy machine finds the same plan.",
    ),
]
NoiseFlag = Annotated[
    float, typer.Option("--noise", min=0, max=1, help="Relative standard deviation of every measured latency.")
]
PlayerFlag = Annotated[str | None, typer.Option("--agent", help="The agent whose plans are played.")]
_FILE = typer.Option("--out", metavar="FILE", help="The file to write.")
FileFlag = Annotated[Path | None, _FILE]
RequiredFile = Annotated[Path, _FILE]
FolderFlag = Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Folder for all files.")]
ForceFlag = Annotated[bool, typer.Option("--force", help="Replace existing files.")]


def gathered(parameter: str, make: Callable[..., Any], options: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Return a decorator of commands that take one object in place of several options.

    Typer sees the options at the position of the parameter in the command's signature.

    Args:
        parameter: name of the command's parameter for the object.
        make: makes it of the options' values, passed by name.
        options: annotation of each option, as Typer reads it; all of them default to None.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)

        @wraps(command)
        def called(**values: Any) -> None:
            typed = {name: values.pop(name) for name in options}
            command(**values, **{parameter: make(**typed)})

        shown = [shown for own in signature.parameters.values() for shown in _shown(own, parameter, options)]
        called.__annotations__ = {one.name: one.annotation for one in shown}
        called.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
        return called

    return decorate


def _shown(own: inspect.Parameter, parameter: str, options: Mapping[str, Any]) -> Iterator[inspect.Parameter]:
    """Yield the parameters that Typer sees: the options in place of the one that gathers them."""
    if own.name != parameter:
        yield own.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        return
    for name, annotation in options.items():
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_OPTIONS = {
    "policy": Annotated[
        Path | None,
        typer.Option(
            "--policy",
            help="Learned policy to start from, a file of 'memplace train'; for cross-entropy a prior, or shipped.",
        ),
    ],
    "config": Annotated[
        str | None, typer.Option("--config", metavar="NAME", help="Named settings, such as paper for egrl.")
    ],
    "settings": Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="One setting of the agent; repeat.")
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
