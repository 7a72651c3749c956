"""The bytes of a model file."""

from __future__ import annotations

from pathlib import Path

from memplace_env.errors import WorkloadError
from memplace_env.foreign import read
from memplace_env.workload.limits import MAX_FILE_BYTES


def read_bytes(file: Path, suffix: str) -> bytes:
    """The contents of a file.

    Args:
        file: its path.
        suffix: of the files that are meant, for messages.

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
        why = getattr(error, "strerror", None) or error
        raise WorkloadError(f"{file} cannot be read: {why}; pass the path of a file that ends in {suffix}.") from error
    if not data:
        raise WorkloadError(f"{file} is empty; export or download the model again.")
    return data
