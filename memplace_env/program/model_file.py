"""Model files: their formats and bytes, and errors that name them."""

from __future__ import annotations

import lzma
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import read, shown
from memplace_env.program.limits import MAX_FILE_BYTES

_MEMORY = 2**27
"""Bytes that decompression may take; the largest preset of xz takes half."""
_NAME, _LONGEST = 50, 380
"""Most characters of a file's name and of what is said about the model, with which a message stays below 500."""


def format_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a model file in lower case, without that of its compression: ".onnx" of net.onnx.xz."""
    return _uncompressed_path(path).suffix.lower()


def name_of(path: str | os.PathLike[str]) -> str:
    """Return the name of a model file without its suffixes: "net" of net.onnx.xz."""
    return _uncompressed_path(path).stem


def _uncompressed_path(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    return path.with_suffix("") if path.suffix.lower() == ".xz" else path


def read_bytes(file: Path, suffix: str) -> bytes:
    """Return the contents of a file, uncompressed if its name ends in .xz; `suffix` is the expected one, for messages.

    Raises:
        WorkloadError: there is no such file, or it is a directory, a pipe or a device, empty, too large or not
            readable.
    """
    try:
        data = read(file, MAX_FILE_BYTES)
        if file.suffix.lower() == ".xz":
            data = _uncompressed(data)
    except IsADirectoryError as error:
        raise WorkloadError(f"{file} is a directory; pass the {suffix} file in it.") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise WorkloadError(f"There is no file {file}; pass the path of a file that ends in {suffix}.") from error
    except (OSError, ValueError, lzma.LZMAError) as error:  # ValueError: a path with a zero byte
        reason = getattr(error, "strerror", None) or error
        message = f"{file} cannot be read: {reason}; pass the path of a file that ends in {suffix}."
        raise WorkloadError(message) from error
    if not data:
        raise WorkloadError(f"{file} is empty; export or download the model again.")
    return data


def _uncompressed(data: bytes) -> bytes:
    """Return what an .xz file holds.

    Raises:
        ValueError: it is cut short, or holds more bytes than a model file may have.
        LZMAError: it is no such file.
    """
    stream = lzma.LZMADecompressor(memlimit=_MEMORY)
    content = stream.decompress(data, max_length=MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"it holds more than {MAX_FILE_BYTES:,} bytes")
    if not stream.eof:
        raise ValueError("it is cut short")
    return content


@contextmanager
def errors_named(file: Path) -> Iterator[None]:
    """Begin the message of every WorkloadError with the name of the file, and leave out the middle of a long one."""
    try:
        yield
    except WorkloadError as error:
        raise WorkloadError(f"{shown(file.name, _NAME)}: {shown(error, _LONGEST)}") from error
