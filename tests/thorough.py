"""A property of the tests tries some of its examples by default, most a quarter, and all of them with `--thorough`.

Tests of each network of the zoo take a third of the networks.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings

VARIABLE = "MEMPLACE_THOROUGH"
"""Environment variable that tells the workers of a session."""
EXAMPLES = 100
"""Examples of a property that says no number."""
FEWEST = 5


def examples(most: int, *, fewest: int = FEWEST, share: int = 4, **options: Any) -> settings:
    """Return the settings of a property with so many examples; by default one in `share`, and `fewest` at least."""
    return settings(max_examples=most if VARIABLE in os.environ else max(most // share, min(most, fewest)), **options)


def a_third(values: Sequence[str]) -> list[Any]:
    """Return parameters of a test: every third value, and the others if all are asked for."""
    return [pytest.param(value, marks=[pytest.mark.thorough] * (index % 3 > 0)) for index, value in enumerate(values)]
