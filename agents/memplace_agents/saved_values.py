"""Checks of saved values: plain values of the type and range with which they were written, else ValueError."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import numpy as np

from memplace_env._lib.foreign import parse_json


def whole(value: Any, least: int = 0, most: int = 2**62) -> int:
    """Return an integer after checking its type and limits."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"no integer from {least} to {most}")
    return value


def number(value: Any, least: float = -inf) -> float:
    """Return a finite number after checking that it is at least `least`."""
    if type(value) not in (int, float) or not least <= value < inf or value == -inf:
        raise ValueError(f"no number from {least}")
    return float(value)


def optional(value: Any, least: float = -inf) -> float | None:
    """Return a finite number that is at least `least`, or None."""
    return None if value is None else number(value, least)


def random_state(rng: np.random.Generator) -> str:
    """Return the state of a random generator as text."""
    return json.dumps(rng.bit_generator.state)


def load_random(rng: np.random.Generator, text: Any) -> None:
    """Set a random generator to a state that `random_state` returned."""
    state = parse_json(text)
    if not isinstance(state, dict) or state.keys() != dict(rng.bit_generator.state).keys():
        raise ValueError("no state of a generator")
    whole(state["has_uint32"], 0, 1)
    whole(state["uinteger"], 0, 2**32 - 1)
    for name in ("state", "inc"):
        whole(state["state"][name], 0, 2**128 - 1)
    rng.bit_generator.state = state
