"""Errors that operators' rules raise on damaged nodes, turned into messages for users."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memplace_env._lib.errors import WorkloadError


@contextmanager
def errors_of_rules(subject: str) -> Iterator[None]:
    """Turn what a rule raises into a WorkloadError about `subject`, such as "Attributes and operands of node 'x'"."""
    try:
        yield
    except WorkloadError:
        raise
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise WorkloadError(f"{subject} do not fit together: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """Return the text of an error as the end of a message: on one line, with a full stop."""
    text = " ".join(str(error).split())
    return text if text.endswith(".") else text + "."
