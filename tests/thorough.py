"""A property of the tests tries a third of its examples by default, and all of them with `--thorough`."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

VARIABLE = "MEMPLACE_THOROUGH"
"""Environment variable that tells the workers of a session."""
EXAMPLES = 100
"""Examples of a property that says no number."""
FEWEST = 5


def examples(most: int, **options: Any) -> settings:
    """Return the settings of a property with so many examples; by default with a third of them, and five at least."""
    return settings(max_examples=most if VARIABLE in os.environ else max(most // 3, min(most, FEWEST)), **options)
