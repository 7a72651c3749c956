"""Model files: their formats, bytes and names, limits on their size, and errors that name them."""

from __future__ import annotations

import lzma
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import described, printable, read, shown

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
        ValueError: it is cut short, holds more bytes than a model file may have, or has data behind its end.
        LZMAError: it is no such file.
    """
    stream = lzma.LZMADecompressor(memlimit=_MEMORY)
    content = stream.decompress(data, max_length=MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"it holds more than {MAX_FILE_BYTES:,} bytes")
    if not stream.eof:
        raise ValueError("it is cut short")
    if stream.unused_data:
        raise ValueError("it has more than one compressed file in it, or other data at its end")
    return content


@contextmanager
def errors_named(file: Path) -> Iterator[None]:
    """Begin the message of every WorkloadError with the name of the file, and leave out the middle of a long one."""
    try:
        yield
    except WorkloadError as error:
        raise WorkloadError(f"{shown(file.name, _NAME)}: {shown(error, _LONGEST)}") from error


MAX_FILE_BYTES: Final = 2**31 - 1
"""Largest model file; protocol buffers and flat buffers have the same limit."""

MAX_RANK: Final = 64
"""Most dims of a tensor, as in NumPy."""

MAX_WORK: Final = 2**60
"""Most work of one op; more is a mistake in the dims, and could overflow int64 in sums."""

LIMITS: Final[Mapping[str, int]] = {
    "nodes": 100_000,
    "operands and results": 400_000,
    "nodes in branches within branches": 100_000,
    "bytes of local functions": 2**28,
    "elements of computed constants": 2**26,
}
"""Most items of each kind in one model. Local functions and taken branches count once per use. All numbers are our
choice: far above what exporters write, and below what would keep a machine busy for minutes."""

SECONDS: Final = 60.0
"""Most processor time of one pass over a model, for files that pass all the limits above and are slow even so."""


IN_PLACE: Final = ("none", "elementwise", "rows")
"""Names of the ops whose results may lie in an operand's place: none, element-wise ones, or row-wise ones as well."""


def check_in_place(in_place: object) -> None:
    """Refuse what is none of `IN_PLACE`.

    Raises:
        WorkloadError: it is none.
    """
    if in_place not in IN_PLACE:
        raise WorkloadError(f"in_place is {described(in_place)}; it must be one of {', '.join(IN_PLACE)}.")


PATTERNS: Final = ("off", "on")
"""Settings of what every compiler knows as one op: as the file writes it out, or as one op."""


def check_patterns(patterns: object) -> None:
    """Refuse what is none of `PATTERNS`.

    Raises:
        WorkloadError: it is none.
    """
    if patterns not in PATTERNS:
        raise WorkloadError(f"patterns is {described(patterns)}; it must be one of {', '.join(PATTERNS)}.")


RECORDED_FUSION: Final[Mapping[str, str]] = {
    **dict.fromkeys(("edge-tpu", "ethos-u65", "intel-npu-4000", "nnp-i"), "conv"),
    **dict.fromkeys(("ethos-u65-256", "ethos-u65-512"), "activation"),
    **dict.fromkeys(("ethos-u85-512", "ethos-u85-2048"), "chain"),
    "tpu-v4i": "epilogue",
}
"""Fusion by shipped chip when ids were registered and results recorded. It never changes, whatever the chips' files say
today; a chip that came later is not in it."""


def as_written(accelerator: str) -> dict[str, Any]:
    """Return the settings with which ids are registered, and which plans mean that do not say them.

    They are a model's own ops, fused as was usual on the chip, each result in bytes of its own at any address, inputs
    and outputs in the backing memory, so that ids stay the same problems and records the same numbers whatever is
    known of a chip and its compiler.

    Args:
        accelerator: name of the chip; on one that is not in `RECORDED_FUSION` the fusion is the chip's own.
    """
    fusion = RECORDED_FUSION.get(accelerator.removesuffix("-streamed"))
    written = {"in_place": "none", "patterns": "off", "alignment": 1, "io_level": "backing"}
    return written | ({"fusion": fusion} if fusion else {})


def check_trips(trips: int | None) -> None:
    """Refuse a number of rounds of loops that is no whole number from 0.

    Raises:
        WorkloadError: it is none.
    """
    if trips is not None and (not isinstance(trips, int | np.integer) or isinstance(trips, bool) or trips < 0):
        raise WorkloadError(f"trips is {described(trips)}; the number of rounds of a loop is a whole number from 0.")


class Meter:
    """Count the items of a model against `LIMITS`, and the time against `SECONDS`."""

    def __init__(self) -> None:
        self._spent: Counter[str] = Counter()
        self._until = time.thread_time() + SECONDS

    def add(self, kind: str, amount: int) -> None:
        """Count `amount` more items of `kind`, a key of `LIMITS`.

        Raises:
            WorkloadError: the limit or the time is exceeded.
        """
        self._spent[kind] += amount
        if self._spent[kind] > LIMITS[kind]:
            raise WorkloadError(
                f"The model has over {LIMITS[kind]:,} {kind} once its functions and branches are inlined, which is the "
                "most that is read; split it into smaller models."
            )
        if time.thread_time() > self._until:
            raise WorkloadError(
                f"Reading the model takes over {SECONDS:.0f} s of the processor's time, the most that a pass may take; "
                "split it into smaller models."
            )


LONGEST: Final = 200
"""Most characters of a name that is shown; our choice."""

# Characters that `stem` keeps of a long name's start and end, and of its digest.
_HEAD, _TAIL, _DIGEST = 120, 60, 16


def clean(name: str) -> str:
    """Return a name for tables, pictures and JSON: printable, at most `LONGEST` characters; mostly the name itself."""
    if len(name) <= LONGEST and name.isprintable():
        return name
    return stem(printable(stem(name)))


def stem(name: str) -> str:
    """Return a prefix for derived names: the name itself, or for a long one a unique abbreviation.

    Otherwise names derived from a name of megabytes would take more memory than the file.
    """
    if len(name) <= LONGEST:
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
    return f"{name[:_HEAD]}~{digest[:_DIGEST]}~{name[-_TAIL:]}"
