"""Options that several commands take, and a decorator that hands a group of them to a command as one object."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any, Literal

import typer

Command = Callable[..., None]

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A zoo name, an .onnx, .tflite, .mlir or .program file, synthetic:chain?ops=24, or an id of 'memplace "
        "envs' with all of its settings, each of which a flag replaces.",
    ),
]
PlayedFormulation = Literal["one-shot", "game", "dynamic"]
"""Formulations that agents play."""
FormulationFlag = Annotated[
    PlayedFormulation | None,
    typer.Option(
        "--formulation",
        show_default="one-shot; for an id its own",
        help="one-shot: a level for each tensor; game: use by use; dynamic: as one-shot, but tensors may move between "
        "levels while the program runs.",
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document instead of tables.")]


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
