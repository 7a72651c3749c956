"""The check of settings."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from math import isfinite
from typing import Any

import numpy as np

from memplace_env._lib.errors import AgentError
from memplace_env._lib.foreign import described


def check_settings(settings: Any, at_least_one: Collection[str], shares: Collection[str] = ()) -> None:
    """Check that all numbers of a dataclass are finite and at least 0.

    Args:
        settings: numbers, booleans and texts.
        at_least_one: names of fields that must be at least 1.
        shares: names of fields that must be at most 1.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """
    for field in fields(settings):
        value, least = getattr(settings, field.name), int(field.name in at_least_one)
        name = f"{type(settings).__name__}.{field.name}"
        kinds = {"int": int | np.integer, "float": int | float | np.integer | np.floating}.get(str(field.type))
        if kinds is not None and not isinstance(value, kinds):
            kind = "whole number" if field.type == "int" else "number"
            raise AgentError(f"{name} must be a {kind}, not {described(value)}.")
        if not isinstance(value, str) and not (isfinite(value) and value >= least):
            raise AgentError(f"{name} must be at least {least} and finite, not {value}.")
        if field.name in shares and value > 1:
            raise AgentError(f"{name} must be from 0 to 1, not {value}.")
