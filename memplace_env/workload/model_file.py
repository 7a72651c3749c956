"""The bytes of a model file."""

from __future__ import annotations

from pathlib import Path

from memplace_env.errors import WorkloadError


def read_bytes(file: Path, suffix: str) -> bytes:
    """The contents of a file.

    Args:
        file: its path.
        suffix: of the files that are meant, for messages.

    Raises:
        WorkloadError: there is no such file, or it is a directory, empty or not readable.
    """
    if file.is_dir():
        raise WorkloadError(f"{file} is a directory; pass the {suffix} file in it.")
    if not file.is_file():
        raise WorkloadError(f"There is no file {file}; pass the path of a file that ends in {suffix}.")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise WorkloadError(f"{file} cannot be read: {error.strerror or error}.") from error
    if not data:
        raise WorkloadError(f"{file} is empty; export or download the model again.")
    return data
