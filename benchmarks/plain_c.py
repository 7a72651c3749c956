"""`plain_c.c`, compiled by gcc and called with the arrays of a schedule."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from memplace_env.placement.compiler import packing
from memplace_env.placement.compiler.compile import Evaluation
from memplace_env.placement.compiler.placing_order import Schedule
from memplace_env.program.program import Ints

SOURCE = Path(__file__).with_name("plain_c.c")
CONSTANTS = ("ATTEMPTS", "MOST_AROUND", "MOST_LOOKS", "FEW")
NUMBERS = "tensors levels ops items blocks decisions compute_pj any_reserved serial in_order".split()
ARRAYS = (
    "item_tensor item_is_weight by_rank size first last ptr middle other tensor_bytes live_start live_end decision_of "
    "capacity latency_ps use_ptr use_tensor compute_ps overhead_ps use_ps use_pj reserved_bytes"
).split()
DTYPES = {"item_is_weight": np.bool_} | dict.fromkeys("item_tensor by_rank other use_ptr use_tensor".split(), np.int32)
"""Types of the arrays that are not int64."""


class CSchedule(ctypes.Structure):
    """`Schedule` of `plain_c.c`."""

    _fields_ = (*((name, ctypes.c_int64) for name in NUMBERS), *((name, ctypes.c_void_p) for name in ARRAYS))


def compiled(folder: Path, *flags: str) -> ctypes.CDLL:
    """Compile `plain_c.c` with these flags of gcc into a new file of a folder, and load it."""
    library = folder / f"plain_c{len(list(folder.iterdir()))}.so"
    constants = [f"-D{name}={getattr(packing, name)}" for name in CONSTANTS]
    warnings = ("-Wall", "-Wextra", "-Werror", "-pedantic")
    command = ["gcc", "-std=c11", *warnings, *flags, *constants, "-shared", "-fPIC", str(SOURCE), "-o", str(library)]
    subprocess.run(command, check=True)
    loaded = ctypes.CDLL(str(library))
    loaded.place_all.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)
    loaded.place_all.restype = ctypes.c_bool
    return loaded


def evaluate_in_c(
    library: ctypes.CDLL, schedule: Schedule, assignments: NDArray[np.integer], decision_of: Ints
) -> Evaluation:
    """Return what `evaluate_assignments` returns, computed by `plain_c.c` in one thread.

    Raises:
        ValueError: if weights are streamed, offsets are pinned, or so many blocks are alive together that the kernels
            keep no lists.
        MemoryError: if there is no memory for the scratch of one assignment.
    """
    *blocks, pins = schedule.blocks
    if schedule.streamed or schedule.crowded or len(pins):
        raise ValueError("The C file has no streamed weights, crowds of blocks or pins; take a program on nnp-i.")
    assignments = np.ascontiguousarray(assignments, dtype=np.int64)
    by_name = schedule._asdict() | schedule.costs._asdict() | {"decision_of": decision_of}
    by_name |= dict(zip(("size", "first", "last", "ptr", "middle", "other"), (*blocks, *schedule.near), strict=True))
    by_name |= {
        "tensors": len(schedule.tensor_bytes),
        "levels": len(schedule.capacity),
        "ops": len(schedule.costs.compute_ps),
        "items": len(schedule.item_tensor),
        "blocks": len(schedule.by_rank),
        "decisions": assignments.shape[1],
        "compute_pj": schedule.all_compute_pj,
    }
    arrays = {name: np.ascontiguousarray(by_name[name], DTYPES.get(name, np.int64)) for name in ARRAYS}
    numbers = {name: int(by_name[name]) for name in NUMBERS}
    argument = CSchedule(**numbers, **{name: array.ctypes.data for name, array in arrays.items()})
    count = len(assignments)
    out, levels = np.empty((3, count), dtype=np.int64), np.empty((count, numbers["tensors"]), dtype=np.int8)
    data = assignments.ctypes.data, count, out.ctypes.data, levels.ctypes.data
    if not library.place_all(ctypes.addressof(argument), *data):
        raise MemoryError("There is no memory for the scratch of one assignment.")
    return Evaluation(out[0], out[1], out[2], levels)


def require_equal(kernels: Evaluation, c: Evaluation, where: str) -> None:
    """Raise AssertionError unless every latency, energy, count of bytes and level is the same."""
    for name in Evaluation._fields:
        ours, theirs = np.atleast_2d(getattr(kernels, name).T, getattr(c, name).T)
        different = int((ours != theirs).any(axis=0).sum())
        if different:
            raise AssertionError(f"{where}: {name} of {different} in {ours.shape[1]} assignments differs.")
