"""A description of a chip, and ways to change it."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import memplace_env.machine.accelerator.load as load_module
from memplace_env.machine.accelerator import Accelerator

PRESETS = Path(load_module.__file__).with_name("presets")
GOOD: dict[str, Any] = tomllib.loads((PRESETS / "tpu-v4i.toml").read_text())
GOOD["memory"][1]["efficiency"] = 0.75

Document = dict[str, Any]
NO_NUMBERS: list[Any] = [True, False, "5", [5], {"a": 5}, float("nan"), float("inf"), -float("inf")]

Read = Callable[[Document], Accelerator]


def put(document: Document, path: str, value: Any) -> None:
    """Sets `a.b[1].c`, or removes it if the value is `...`."""
    *parents, last = [int(part) if part.isdigit() else part for part in re.findall(r"[\w-]+", path)]
    at: Any = document
    for part in parents:
        at = at[part]
    if value is ...:
        del at[last]
    else:
        at[last] = value


def changed(*changes: tuple[str, Any]) -> Document:
    document = copy.deepcopy(GOOD)
    for path, value in changes:
        put(document, path, value)
    return document
