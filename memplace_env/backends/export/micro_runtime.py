"""Inferences in TensorFlow Lite Micro's own interpreter, in a process of their own: models can crash it."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import ExecutionError
from memplace_env.program.frontends.tflite.tflite_reader import parse

INFERENCES: Final = 2
"""Inferences in a row, with other inputs: the second one shows what variables keep."""
ARENA: Final = 2**28
"""Bytes of address space for an interpreter, which touches what it needs. Our choice."""
_SECONDS: Final = 600
_HEAD: Final = re.compile(r"Arena allocation head (\d+) bytes")


class MicroRun(NamedTuple):
    """Outputs by inference and position, and recorded bytes of the arena for tensors and scratch."""

    outputs: tuple[NDArray[Any], ...]
    head: int


def run_in_micro(data: bytes) -> MicroRun:
    """Return what the interpreter gives for a .tflite file's bytes, on inputs that are always the same.

    Raises:
        ExecutionError: the interpreter is not installed, or cannot run the model.
        WorkloadError: the model cannot be read.
    """
    require_micro()
    model = parse(data)
    with TemporaryDirectory() as folder:
        file, outputs = Path(folder, "model.tflite"), Path(folder, "outputs.npz")
        file.write_bytes(data)
        command = [sys.executable, "-m", __name__, file, outputs, len(model.inputs), len(model.outputs)]
        try:
            done = subprocess.run(list(map(str, command)), capture_output=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise ExecutionError(f"TensorFlow Lite Micro did not run the model in {_SECONDS} seconds.") from None
        said = done.stderr.decode(errors="replace")
        head = _HEAD.search(said)
        if done.returncode or head is None:
            words = said.partition("Traceback")[0].split("\n")
            last = next(filter(str.strip, reversed(words)), f"its process ended with code {done.returncode}")
            raise ExecutionError(f"TensorFlow Lite Micro cannot run the model: {last.strip().rstrip('.')}.")
        with np.load(outputs) as arrays:
            return MicroRun(tuple(arrays.values()), int(head[1]))


def require_micro() -> None:
    """Raise ExecutionError if the interpreter is not installed."""
    if find_spec("tflite_micro") is None:
        raise ExecutionError(
            "Running a .tflite file needs the package tflite-micro, which is not installed; run: "
            'pip install "memplace[micro]".'
        )


def _drawn(rng: np.random.Generator, shape: Any, dtype: Any) -> NDArray[Any]:
    """Return an input: floats of the usual size, small integers from their whole range, else 0 and 1."""
    kind: np.dtype[Any] = np.dtype(dtype)
    if kind.kind == "f":
        return np.asarray(rng.normal(size=shape), kind)
    small = kind.kind in "iu" and kind.itemsize <= 2
    low, high = (np.iinfo(kind).min, np.iinfo(kind).max) if small else (0, 1)
    return np.asarray(rng.integers(low, high, size=shape, endpoint=True), kind)


def _main(model: str, written: str, inputs: str, outputs: str) -> None:
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_file(model, arena_size=ARENA)
    rng, found = np.random.default_rng(0), []
    for _ in range(INFERENCES):
        for position in range(int(inputs)):
            details = interpreter.get_input_details(position)
            interpreter.set_input(_drawn(rng, details["shape"], details["dtype"]), position)
        interpreter.invoke()
        found += [np.array(interpreter.get_output(position)) for position in range(int(outputs))]
    np.savez(written, *found)
    interpreter.print_allocations()


if __name__ == "__main__":
    _main(*sys.argv[1:])
