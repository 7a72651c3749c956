"""Errors that operators' rules raise on damaged nodes, turned into messages for users."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Final

from memplace_env._lib.errors import WorkloadError

_OF_RULES: Final = (ArithmeticError, LookupError, TypeError, ValueError)
"""Types of the errors that rules raise on damaged nodes."""


@dataclass(slots=True)
class ErrorsOfRules:
    """Context that turns what a rule raises into a WorkloadError.

    Attributes:
        subject: what the message is about, such as "Attributes and operands of node 'x'".
    """

    subject: str

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, _OF_RULES) and not isinstance(error, WorkloadError):
            raise WorkloadError(f"{self.subject} do not fit together: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """Return the text of an error as the end of a message: on one line, with a full stop."""
    text = " ".join(str(error).split())
    return text if text.endswith(".") else text + "."
