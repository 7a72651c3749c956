"""Inputs of a network: arrays from a file, or drawn from a seed."""

from __future__ import annotations

import errno
import io
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from memplace_env._lib import foreign
from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.ort.source import Source

Arrays = dict[str, NDArray[Any]]

MOST_BYTES: Final = 2**31
"""Limit on the bytes of a file of inputs, packed and unpacked; our choice."""

Inputs = Mapping[str, ArrayLike] | str | os.PathLike[str] | None
"""Arrays by name, the path of an .npz file, or None to draw them from a seed."""


def given_inputs(source: Source, names: Iterable[str], seed: int, inputs: Inputs) -> Arrays:
    """Return a model's inputs as checked arrays.

    Raises:
        ExecutionError: they cannot be read, or do not fit the model.
    """
    if inputs is None:
        return drawn_inputs(source, names, seed)
    if isinstance(inputs, Mapping):
        return checked_inputs(source, names, inputs)
    return read_inputs(source, names, inputs)


def drawn_inputs(source: Source, names: Iterable[str], seed: int) -> Arrays:
    """Draw inputs from a seed.

    Floating-point numbers are normal; inputs of a single one ascend, as the lower end of a range comes first. Indices
    are valid in every table that they select rows of; other integers are random bits if they have one byte, else masks,
    as both may be masks or indices.

    Args:
        source: the model.
        names: names of its inputs.
        seed: seed of the draws, which depend on the name alone besides.
    """
    rows = selected_rows(source)
    drawn: Arrays = {}
    for name in names:
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        shape, dtype = source.value(name).shape, source.dtype(name)
        if dtype.kind in "iu" and name in rows:
            drawn[name] = rng.integers(0, rows[name], shape).astype(dtype)
        elif dtype.kind in "iu" and dtype.itemsize == 1:
            drawn[name] = _bits(shape, dtype, rng)
        elif dtype.kind in "iub":
            drawn[name] = _mask(shape, dtype, rng)
        else:
            drawn[name] = rng.standard_normal(shape, dtype=np.float32).astype(dtype)
    single = [
        name for name in source.values if name in drawn and drawn[name].size == 1 and drawn[name].dtype.kind == "f"
    ]
    ascending = sorted((drawn[name] for name in single), key=np.ndarray.item)
    return drawn | {name: array.reshape(drawn[name].shape) for name, array in zip(single, ascending, strict=True)}


def read_inputs(source: Source, names: Iterable[str], path: str | os.PathLike[str]) -> Arrays:
    """Read inputs from an .npz file.

    Raises:
        ExecutionError: it cannot be read, or holds other inputs than the model has.
    """
    try:
        read = _unpacked(foreign.read(path, MOST_BYTES))
    except Exception as error:  # numpy, zipfile and its decoders raise many types on damaged files
        reason = getattr(error, "strerror", None) or "it is not an .npz file of arrays"
        raise ExecutionError(
            f"Cannot read the inputs {os.fspath(path)}: {reason}; write them with numpy.savez."
        ) from None
    return checked_inputs(source, names, read)


def checked_inputs(source: Source, names: Iterable[str], given: Mapping[str, ArrayLike]) -> Arrays:
    """Check that inputs fit the model and return them as arrays.

    Raises:
        ExecutionError: naming the first that is missing, unknown or of another shape or type.
    """
    wanted = list(names)
    checked: Arrays = {}
    for name in given.keys() - set(wanted):
        raise ExecutionError(f"The model has no input {name!r}; it has: {', '.join(wanted)}.")
    for name in wanted:
        if name not in given:
            raise ExecutionError(f"The input {name!r} is missing; pass all of: {', '.join(wanted)}.")
        shape, dtype = source.value(name).shape, source.dtype(name)
        array = _array(name, given[name])
        if array.shape != shape or array.dtype != dtype:
            has = f"{array.dtype} {list(array.shape)}"
            raise ExecutionError(f"The input {name!r} is {has}; the model takes {dtype} {list(shape)}.")
        checked[name] = array
    return checked


def _unpacked(content: bytes) -> Arrays:
    """Unpack the arrays of an .npz file; its declared sizes can be trusted, as no more than them is ever unpacked."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        size = sum(member.file_size for member in archive.infolist())
    if size > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it unpacks to {size:,} bytes; the limit is {MOST_BYTES:,}")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        read = {name: file[name] for name in file.files}
    if not all(isinstance(array, np.ndarray) for array in read.values()):
        raise ValueError("a member is not an array")
    return read


def _array(name: str, given: ArrayLike) -> NDArray[Any]:
    try:
        return np.asarray(given, order="C")
    except (TypeError, ValueError) as error:
        raise ExecutionError(f"The input {name!r} is not an array: {str(error).rstrip('.')}.") from error


def _bits(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Draw ones and zeros, the first of each row a one, so that no mask hides a whole row."""
    bits = np.asarray(rng.integers(0, 2, shape), dtype)
    bits[(..., slice(1)) if shape else ()] = 1
    return bits


def _mask(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> NDArray[Any]:
    """Draw masks of ones, with zeros at the end of the last axis, as for texts of different lengths."""
    mask = np.ones(shape, dtype)
    if shape:
        room = shape[-1]
        texts = rng.integers(room - room // 4, room + 1, shape[:-1])
        mask[np.arange(room) >= texts[..., None]] = 0
    return mask


def selected_rows(source: Source) -> dict[str, int]:
    """Return the fewest rows of a table that a value selects from, for each such value and the values it is made of."""
    rows: dict[str, int] = {}
    for node in source.distinct_nodes:
        if node.op_type in ("Gather", "GatherElements") and node.input[0] in source.values:
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            shape = source.values[node.input[0]].shape
            if shape:
                _note(source, rows, node.input[1], shape[axis])
    return rows


def _note(source: Source, rows: dict[str, int], name: str, most: int) -> None:
    """Bound a value, and the values that it is a conversion or view of."""
    while True:
        rows[name] = min(most, rows.get(name, most))
        node = source.nodes.get(name)
        if node is None or node.op_type not in ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten"):
            return
        name = node.input[0]
