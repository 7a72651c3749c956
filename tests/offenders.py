"""Many cases in one test, which fails with a line for each case that fails."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest


def offenders(check: Callable[..., object], cases: Iterable[Sequence[Any]]) -> list[str]:
    """Return a line for each case whose check fails, given the case's parts: the case, and what the check said."""
    found = []
    for case in cases:
        try:
            check(*case)
        except (Exception, pytest.fail.Exception) as error:
            found.append(f"{str(case)[:200]}: {type(error).__name__}: {str(error)[:500]}")
    return found
