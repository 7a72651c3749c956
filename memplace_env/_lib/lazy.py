"""Names of a package that load the module of their home when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any


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
        return getattr(import_module(f"{package}.{home[name]}"), name)

    vars(module).update(__getattr__=load, __dir__=lambda: sorted({*vars(module), *public}), __all__=public)
