"""The format of `.program` files, for `Program.save` and `Program.load`.

A `.program` file has three parts:

- a line of text, `memplace-program <1, 2 or 3> <sha256 of all that follows>`;
- a line of JSON: `name`, `dtype`, the numbers of `ops`, `tensors`, `uses` and, in format 3, `pairs`, and `text`, the
  bytes of the JSON below;
- one zlib stream of the arrays of `ARRAY_DIMS`, in that order, each as little-endian int64 in row-major order, and of
  JSON in UTF-8 with the lists of strings `op_type`, `op_name` and `tensor_name`. Formats lack the arrays of `_SINCE`
  with a later one: in format 1 no tensor can be cut, in 1 and 2 no result lies in place.

So every size is known before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.files import write_atomically
from memplace_env._lib.foreign import described, parse_json
from memplace_env.program.model_file import read_bytes
from memplace_env.program.program_arrays import ARRAY_DIMS, Ints, ProgramArrays, TensorKind

P = TypeVar("P", bound=ProgramArrays)

SUFFIX: Final = ".program"
_FORMAT: Final = b"memplace-program "
_SINCE: Final = {"tensor_rows": 2, "use_halo": 2, "inplace": 3, "pairs": 3}
"""First formats that have an array or a count; format 1 has the others."""
_TYPES: Final[Mapping[str, type[np.generic]]] = {"tensor_kind": np.int8, "use_is_result": np.bool_}
"""Element types of the arrays that are not int64 in a Program."""

_NAMES: Final = ("op_type", "op_name", "tensor_name")
_MOST: Final = {"ops": 10**6, "tensors": 10**6, "uses": 10**6, "pairs": 10**6, "text": 2**26}
"""Largest counts of a header: several times those of any model that is read, and less than 1 GB as objects."""
_MAX_HEADER: Final = 65_536
_MAX_BYTES: Final = 2**30
_MAX_EXPANSION: Final = 1100
"""Largest ratio of unpacked to packed bytes; that of a deflate stream is at most 1032."""


def write_program(program: ProgramArrays, path: str | os.PathLike[str]) -> None:
    """Write the file atomically; equal programs with equal names give equal bytes.

    Raises:
        WorkloadError: the path does not end in `.program`, or cannot be written, or the program is larger than a file
            may be.
    """
    if Path(path).suffix.lower() != SUFFIX:
        raise WorkloadError(f"A Program is saved in a file that ends in {SUFFIX}, not in {os.fspath(path)!r}.")
    if getattr(program, "slices", None) is not None:
        raise WorkloadError(
            "A sliced Program is not saved; save its `whole`, which slices= cuts again in the same way."
        )
    if getattr(program, "alignment", 1) > 1:
        raise WorkloadError("An aligned Program is not saved; save what it was made from, and align that again.")
    names = {name: getattr(program, name) for name in _NAMES}
    text = json.dumps(names, separators=(",", ":")).encode()
    version = 3 if len(program.inplace) else 2 if (program.tensor_rows[:, 1] > 1).any() else 1
    sizes = {"ops": program.num_ops, "tensors": program.num_tensors, "uses": program.num_uses}
    sizes |= {"pairs": len(program.inplace), "text": len(text)}
    counts = {name: _count(name, size) for name, size in sizes.items() if _SINCE.get(name, 1) <= version}
    header = json.dumps({"name": program.name, "dtype": program.dtype, **counts}).encode()
    arrays = (getattr(program, name).astype("<i8").tobytes() for name in _dims(version))
    body = header + b"\n" + zlib.compress(b"".join((*arrays, text)), 9)
    try:
        digest = hashlib.sha256(body).hexdigest()
        write_atomically(Path(path), _FORMAT + f"{version} {digest}\n".encode() + body)
    except OSError as error:
        raise WorkloadError(f"{path} cannot be written: {error.strerror or error}.") from error


def read_program(path: str | os.PathLike[str], make: Callable[..., P]) -> P:
    """Read a file and return its program, constructed by `make` from the arrays.

    Raises:
        WorkloadError: the file is missing, is no saved Program, is damaged, or contradicts itself.
    """
    if not os.fspath(path):
        raise WorkloadError(f"The path is empty; pass the path of a file that ends in {SUFFIX}.")
    file = Path(path)
    data = read_bytes(file, SUFFIX)
    try:
        return _parsed(data, make)
    except WorkloadError as error:
        raise WorkloadError(f"{file.name}: {error}") from error
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, zlib.error) as error:
        raise WorkloadError(f"{file.name}: the file is damaged ({error}); save the Program again.") from error


def _parsed(data: bytes, make: Callable[..., P]) -> P:
    first, _, body = data.partition(b"\n")
    version, _, digest = first.removeprefix(_FORMAT).partition(b" ")
    if not first.startswith(_FORMAT):
        raise WorkloadError("The file is not a saved Program; pass one that `Program.save` wrote.")
    if version not in (b"1", b"2", b"3"):
        raise WorkloadError("The file has a format that is newer than this version of memplace; update memplace.")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError("its contents do not fit its hash")
    line, _, packed = body.partition(b"\n")
    if len(line) > _MAX_HEADER:
        raise ValueError("its header is too long")
    header = parse_json(line)
    counts = {name: _count(name, header[name]) for name in _MOST if _SINCE.get(name, 1) <= int(version)}
    shapes = {
        name: tuple({**counts, "ends": counts["ops"] + 1}[dim] if isinstance(dim, str) else dim for dim in dims)
        for name, dims in _dims(int(version)).items()
    }
    sizes = {name: 8 * math.prod(shape) for name, shape in shapes.items()}
    content = _unpacked(packed, sum(sizes.values()) + counts["text"])
    arrays, offset = {}, 0
    for name, shape in shapes.items():
        arrays[name] = np.frombuffer(content, "<i8", math.prod(shape), offset).reshape(shape).astype(np.int64)
        offset += sizes[name]
    _check_ranges(arrays)
    typed = {name: array.astype(_TYPES.get(name, np.int64)) for name, array in arrays.items()}
    names = parse_json(content[offset:])
    texts = {name: tuple(map(_text, _list(names[name]))) for name in _NAMES}
    return make(_text(header["name"]), _text(header["dtype"]), **typed, **texts)


def _dims(version: int) -> Mapping[str, tuple[str | int, ...]]:
    """Return the arrays that a version of the format has, with their dims."""
    return {name: dims for name, dims in ARRAY_DIMS.items() if _SINCE.get(name, 1) <= version}


def _count(name: str, number: object) -> int:
    if type(number) is not int or number < 0:
        raise ValueError(f"a count is {number!r:.40}")
    if number > _MOST[name]:
        what = "bytes of names" if name == "text" else name
        raise WorkloadError(f"The Program has {described(number)} {what}, and {_MOST[name]:,} are the most in a file.")
    return number


def _unpacked(packed: bytes, size: int) -> bytes:
    if size > min(_MAX_BYTES, _MAX_EXPANSION * len(packed)):
        raise ValueError(f"its header announces {size} bytes, more than it can hold")
    stream = zlib.decompressobj()
    # One byte more than announced shows a stream that is too long without unpacking all of it.
    content = stream.decompress(packed, size + 1)
    if len(content) != size or not stream.eof or stream.unused_data:
        raise ValueError(f"its arrays do not have the {size} bytes that its header announces")
    return content


def _check_ranges(arrays: Mapping[str, Ints]) -> None:
    """Check the arrays that become a narrower type, before numbers are cut off."""
    kinds, flags = arrays["tensor_kind"], arrays["use_is_result"]
    if not np.isin(kinds, list(TensorKind)).all() or not np.isin(flags, (0, 1)).all():
        raise ValueError("it has kinds of tensors or uses that do not exist")


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("names are not a list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a name is {value!r:.40}")
    value.encode()  # fails for a lone surrogate, which is no text
    return value
