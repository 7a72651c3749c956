"""Model files: their bytes, and errors that name them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import read, shown
from memplace_env.program.limits import MAX_FILE_BYTES

_NAME, _LONGEST = 50, 380
"""Most characters of a file's name and of what is said about the model, with which a message stays below 500."""


def read_bytes(file: Path, suffix: str) -> bytes:
    """Return the contents of a file; `suffix` is the expected one, for messages.

    Raises:
        WorkloadError: there is no such file, or it is a directory, a pipe or a device, empty, too large or not
            readable.
    """
    try:
        data = read(file, MAX_FILE_BYTES)
    except IsADirectoryError as error:
        raise WorkloadError(f"{file} is a directory; pass the {suffix} file in it.") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise WorkloadError(f"There is no file {file}; pass the path of a file that ends in {suffix}.") from error
    except (OSError, ValueError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or error
        message = f"{file} cannot be read: {reason}; pass the path of a file that ends in {suffix}."
        raise WorkloadError(message) from error
    if not data:
        raise WorkloadError(f"{file} is empty; export or download the model again.")
    return data


@contextmanager
def errors_named(file: Path) -> Iterator[None]:
    """Begin the message of every WorkloadError with the name of the file, and leave out the middle of a long one."""
    try:
        yield
    except WorkloadError as error:
        raise WorkloadError(f"{shown(file.name, _NAME)}: {shown(error, _LONGEST)}") from error
