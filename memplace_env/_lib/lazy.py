"""Names and packages that are loaded when they are first used, and what is said if they cannot be."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

_AGENTS = "torch", "tensorboard", "stable_baselines3", "sb3_contrib"


def missing(purpose: str, error: ModuleNotFoundError) -> str:
    """Return the sentence that a package is not installed, and what brings it: an extra, or MemPlace's own needs."""
    package = str(error.name).partition(".")[0]
    wanted = '"memplace[agents]"' if package in _AGENTS else "memplace"
    return f"{purpose} needs {package}, which is not installed; run: pip install {wanted}."


def required(module: str, purpose: str, package: str, extra: str, error: type[Exception]) -> Any:
    """Import a module of a package that an extra installs, and return it.

    Raises:
        Exception: of the type `error`, if it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as failure:
        text = f'{purpose} {package}, which is not installed; run: pip install "memplace[{extra}]".'
        raise error(text) from failure


def export_lazily(package: str, homes: Mapping[str, str], own: Sequence[str] = ()) -> None:
    """Give a package its `__getattr__`, `__dir__` and `__all__`.

    The package also imports the names under `TYPE_CHECKING`, each `as` itself, which type checkers take as an export;
    an `__all__` that they cannot read would hide them.

    Args:
        package: its `__name__`.
        homes: names, separated by blanks, by the module inside the package that they come from.
        own: names that the package defines itself.
    """
    module = sys.modules[package]
    home = {name: source for source, names in homes.items() for name in names.split()}
    public = sorted([*home, *own])

    def load(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # Not kept in the package: a name that is replaced at its home, as tests do, is replaced here as well.
        try:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(missing(name, error), name=error.name) from error

    vars(module).update(__getattr__=load, __dir__=lambda: sorted({*vars(module), *public}), __all__=public)
