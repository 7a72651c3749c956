"""Programs as files, for `Program.save` and `Program.load`.

A `.program` file has three parts. First a line of text, `memplace-program 1 <sha256 of all that follows>`. Then a line
of JSON: `name`, `dtype`, the numbers of `ops`, `tensors` and `uses`, and `text`, the bytes of the names below. Then one
zlib stream of

- the arrays of `_SHAPES`, in its order, each as little-endian int64 in row-major order;
- JSON in UTF-8: `op_type`, `op_name` and `tensor_name`, three lists of texts in an object.

So every size is known before anything is unpacked.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplace_env.errors import WorkloadError
from memplace_env.files import write_atomically
from memplace_env.foreign import parse_json
from memplace_env.workload.model_file import read_bytes
from memplace_env.workload.program import Program
from memplace_env.workload.terms import GEOMETRY, TensorKind

SUFFIX: Final = ".program"
_FORMAT: Final = b"memplace-program 1 "
_SHAPES: Final[Mapping[str, tuple[str | int, ...]]] = {
    "tensor_bytes": ("tensors",),
    "tensor_kind": ("tensors",),
    "producer": ("tensors",),
    "gemm": ("ops", 4),
    "vector_ops": ("ops",),
    "geometry": ("ops", len(GEOMETRY)),
    "use_ptr": ("ends",),
    "use_tensor": ("uses",),
    "use_is_result": ("uses",),
    "use_bytes": ("uses",),
    "alias_of": ("tensors",),
}
"""Dims of each array; `ends` are the ops and one more."""

_TYPES: Final[Mapping[str, type[np.generic]]] = {"tensor_kind": np.int8, "use_is_result": np.bool_}
"""Of the arrays that are not int64 in a Program."""

_NAMES: Final = ("op_type", "op_name", "tensor_name")
_COUNTS: Final = ("ops", "tensors", "uses", "text")
_MAX_HEADER: Final = 65_536
_MAX_BYTES: Final = 2**30
_MAX_EXPANSION: Final = 1100
"""No deflated stream unpacks to more times its size (the limit is 1032)."""


def write_program(program: Program, path: str | os.PathLike[str]) -> None:
    """Writes the file in one step; equal programs of equal names give equal bytes.

    Raises:
        WorkloadError: the path does not end in `.program`, or cannot be written.
    """
    if Path(path).suffix.lower() != SUFFIX:
        raise WorkloadError(f"A Program is saved in a file that ends in {SUFFIX}, not in {os.fspath(path)!r}.")
    names = {name: getattr(program, name) for name in _NAMES}
    text = json.dumps(names, separators=(",", ":")).encode()
    counts = {"ops": program.num_ops, "tensors": program.num_tensors, "uses": program.num_uses, "text": len(text)}
    header = json.dumps({"name": program.name, "dtype": program.dtype, **counts}).encode()
    arrays = (getattr(program, name).astype("<i8").tobytes() for name in _SHAPES)
    body = header + b"\n" + zlib.compress(b"".join((*arrays, text)), 9)
    try:
        write_atomically(Path(path), _FORMAT + hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
    except OSError as error:
        raise WorkloadError(f"{path} cannot be written: {error.strerror or error}.") from error


def read_program(path: str | os.PathLike[str]) -> Program:
    """The Program in a file.

    Raises:
        WorkloadError: there is no such file, it is no Program, a damaged one, or one that contradicts itself.
    """
    if not os.fspath(path):
        raise WorkloadError(f"The path is empty; pass the path of a file that ends in {SUFFIX}.")
    file = Path(path)
    data = read_bytes(file, SUFFIX)
    try:
        return _parsed(data)
    except WorkloadError as error:
        raise WorkloadError(f"{file.name}: {error}") from error
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, zlib.error) as error:
        raise WorkloadError(f"{file.name}: the file is damaged ({error}); save the Program again.") from error


def _parsed(data: bytes) -> Program:
    first, _, body = data.partition(b"\n")
    if not first.startswith(_FORMAT):
        if first.startswith(_FORMAT.split()[0]):
            raise WorkloadError("The file has a format that this version of memplace does not know; update memplace.")
        raise WorkloadError("The file is no saved Program; pass one that `Program.save` wrote.")
    if hashlib.sha256(body).hexdigest().encode() != first.removeprefix(_FORMAT):
        raise ValueError("its contents do not fit its hash")
    line, _, packed = body.partition(b"\n")
    if len(line) > _MAX_HEADER:
        raise ValueError("its header is too long")
    header = parse_json(line)
    counts = {name: _count(header[name]) for name in _COUNTS}
    shapes = {
        name: tuple({**counts, "ends": counts["ops"] + 1}[dim] if isinstance(dim, str) else dim for dim in dims)
        for name, dims in _SHAPES.items()
    }
    sizes = {name: 8 * math.prod(shape) for name, shape in shapes.items()}
    content = _unpacked(packed, sum(sizes.values()) + counts["text"])
    arrays, place = {}, 0
    for name, shape in shapes.items():
        arrays[name] = np.frombuffer(content, "<i8", math.prod(shape), place).reshape(shape).astype(np.int64)
        place += sizes[name]
    _check_ranges(arrays)
    typed = {name: array.astype(_TYPES.get(name, np.int64)) for name, array in arrays.items()}
    names = parse_json(content[place:])
    texts = {name: tuple(_text(each) for each in _list(names[name])) for name in _NAMES}
    return Program(_text(header["name"]), _text(header["dtype"]), **typed, **texts)  # type: ignore[arg-type]


def _count(number: object) -> int:
    if type(number) is not int or not 0 <= number <= _MAX_BYTES:
        raise ValueError(f"a count is {number!r:.40}")
    return number


def _unpacked(packed: bytes, size: int) -> bytes:
    if size > min(_MAX_BYTES, _MAX_EXPANSION * len(packed)):
        raise ValueError(f"it says that it holds {size} bytes, more than it can")
    stream = zlib.decompressobj()
    content = stream.decompress(packed, size + 1)
    if len(content) != size or not stream.eof or stream.unused_data:
        raise ValueError(f"its arrays are not the {size} bytes that it says")
    return content


def _check_ranges(arrays: Mapping[str, NDArray[np.int64]]) -> None:
    """What other types cannot hold."""
    kinds, flags = arrays["tensor_kind"], arrays["use_is_result"]
    if not np.isin(kinds, list(TensorKind)).all() or not np.isin(flags, (0, 1)).all():
        raise ValueError("it has kinds of tensors or uses that do not exist")


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("names are no list")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a name is {value!r:.40}")
    value.encode()  # a lone surrogate is no text
    return value
