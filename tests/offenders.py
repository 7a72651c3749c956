"""Many cases in one test, which fails with a line for each case that fails."""

from collections.abc import Callable, Iterable, Sequence
from inspect import Signature, signature
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


def every(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator like `pytest.mark.parametrize` that makes one test of all cases, with the same fixtures.

    Args:
        names: of the test's parameters that are parts of a case; one name means that each case is its value.
        cases: values of these parameters.
    """
    parts = (names,) if isinstance(names, str) else names
    rows = [(case,) if isinstance(names, str) else tuple(case) for case in cases]

    def decorate(check: Callable[..., None]) -> Callable[..., None]:
        def test(**fixtures: Any) -> None:
            found = offenders(lambda *case: check(**fixtures, **dict(zip(parts, case, strict=True))), rows)
            assert not found, "\n".join(found)

        test.__dict__.update(vars(check))
        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        fixtures = [parameter for name, parameter in signature(check).parameters.items() if name not in parts]
        test.__signature__ = Signature(fixtures)  # type: ignore[attr-defined]
        return test

    return decorate
