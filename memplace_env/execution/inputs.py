"""What a network is run on: arrays from a file, or drawn from a seed."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplace_env import foreign
from memplace_env.errors import ExecutionError
from memplace_env.execution.source import Source

Arrays = dict[str, NDArray[Any]]

MOST_BYTES: Final = 2**31
"""Of a file of inputs; our choice."""


Inputs = Mapping[str, NDArray[Any]] | str | os.PathLike[str] | None


def given_inputs(source: Source, names: Iterable[str], seed: int, inputs: Inputs) -> Arrays:
    """A model's inputs, whatever says them: arrays by name, the path of an .npz file, or with None the seed.

    Raises:
        ExecutionError: they cannot be read, or do not fit the model.
    """
    if inputs is None:
        return drawn_inputs(source, names, seed)
    if isinstance(inputs, Mapping):
        return checked_inputs(source, names, inputs)
    return read_inputs(source, names, inputs)


def drawn_inputs(source: Source, names: Iterable[str], seed: int) -> Arrays:
    """Inputs from a seed: normal floating-point numbers; indices into every table that they select rows of; else masks.

    Args:
        source: the model.
        names: of its inputs.
        seed: of what is drawn; the same for the same name.
    """
    rows = _rows(source)
    drawn: Arrays = {}
    for name in names:
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        shape, dtype = source.value(name).shape, source.dtype(name)
        if dtype.kind in "iu" and name in rows:
            drawn[name] = rng.integers(0, rows[name], shape).astype(dtype)
        elif dtype.kind in "iub":
            drawn[name] = _mask(shape, dtype)
        else:
            drawn[name] = rng.standard_normal(shape, dtype=np.float32).astype(dtype)
    return drawn


def read_inputs(source: Source, names: Iterable[str], path: str | os.PathLike[str]) -> Arrays:
    """Inputs from an .npz file, by name.

    Raises:
        ExecutionError: it cannot be read, or holds other inputs than the model has.
    """
    try:
        with np.load(io.BytesIO(foreign.read(path, MOST_BYTES)), allow_pickle=False) as file:
            read = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, KeyError, AttributeError, zipfile.BadZipFile, zlib.error) as error:
        why = getattr(error, "strerror", None) or "it is no .npz file of arrays"
        raise ExecutionError(f"Cannot read the inputs {os.fspath(path)}: {why}; write them with numpy.savez.") from None
    return checked_inputs(source, names, read)


def checked_inputs(source: Source, names: Iterable[str], given: Mapping[str, NDArray[Any]]) -> Arrays:
    """Inputs that fit the model.

    Raises:
        ExecutionError: naming the first that is missing, unknown or of another shape or type.
    """
    wanted = list(names)
    for name in given.keys() - set(wanted):
        raise ExecutionError(f"The model has no input {name!r}; it has: {', '.join(wanted)}.")
    for name in wanted:
        if name not in given:
            raise ExecutionError(f"The input {name!r} is missing; pass all of: {', '.join(wanted)}.")
        shape, dtype = source.value(name).shape, source.dtype(name)
        if given[name].shape != shape or given[name].dtype != dtype:
            has = f"{given[name].dtype} {list(given[name].shape)}"
            raise ExecutionError(f"The input {name!r} is {has}; the model takes {dtype} {list(shape)}.")
    return {name: np.asarray(given[name], order="C") for name in wanted}


def _mask(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Ones, and zeros in the last quarter of the last axis, as if a text were shorter than there is room for."""
    mask = np.ones(shape, dtype)
    if shape:
        mask[..., shape[-1] - shape[-1] // 4 :] = 0
    return mask


def _rows(source: Source) -> dict[str, int]:
    """For each value that selects rows, and what it is made of, the fewest rows of a table that it selects from."""
    rows: dict[str, int] = {}
    nodes = {id(node): node for node in source.nodes.values()}.values()
    for node in nodes:
        if node.op_type in ("Gather", "GatherElements") and node.input[0] in source.values:
            axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 0)
            shape = source.values[node.input[0]].shape
            if shape:
                _note(source, rows, node.input[1], shape[axis])
    return rows


def _note(source: Source, rows: dict[str, int], name: str, most: int) -> None:
    """Bound a value, and those that it is made of by one input alone."""
    while True:
        rows[name] = min(most, rows.get(name, most))
        node = source.nodes.get(name)
        if node is None or node.op_type not in ("Cast", "Identity", "Reshape", "Unsqueeze", "Squeeze", "Flatten"):
            return
        name = node.input[0]
