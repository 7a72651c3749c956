"""TensorFlow Lite Micro itself reads the offline plan, where its Python package (tflite-micro) is installed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from memplace_env.backends.export.tflite_file import with_offline_plan
from memplace_env.machine.accelerator.accelerator import InPlace
from memplace_env.placement.resolve_task import make_task
from tests.backends.export.test_tflite import planned
from tests.by_hand import machine
from tests.program.tflite.writer import T, load_bytes, op, write

micro = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="tflite-micro is not installed")

IMAGE, FLAT = T([1, 4, 4, 16], "FLOAT32"), T([1, 256], "FLOAT32")
TENSORS = {"x": IMAGE, "a": IMAGE, "r": FLAT, "b": FLAT, "c": IMAGE, "f": FLAT, "d": FLAT, "e": FLAT, "y": FLAT}
MODEL = write(
    [
        op("LOGISTIC", "x", "a"),
        op("RESHAPE", "a", "r"),
        op("LOGISTIC", "r", "b"),
        op("LOGISTIC", "a", "c"),
        op("RESHAPE", "c", "f"),
        op("ADD", "b f", "d"),
        op("LOGISTIC", "b", "e"),
        op("ADD", "d e", "y"),
    ],
    TENSORS,
)
SIZE = 1024


def result(model: bytes) -> np.ndarray:
    """Return the runtime's output for one input."""
    interpreter = micro.Interpreter.from_bytes(model, arena_size=64 * SIZE)
    interpreter.set_input(np.linspace(-3, 3, 256, dtype=np.float32).reshape(1, 4, 4, 16), 0)
    interpreter.invoke()
    return np.array(interpreter.get_output(0))


@pytest.mark.parametrize("in_place", ["none", "elementwise"])
def test_outputs_are_the_same_and_offsets_are_obeyed(in_place: InPlace) -> None:
    fast, slow = machine().levels
    rates = {rate: {"float32": 10**9} for rate in ("matrix_macs_per_s", "vector_ops_per_s", "mac_pj", "vector_pj")}
    chip = machine(levels=(replace(fast, capacity_bytes=8 * SIZE), slow), dtype="float32", **rates)
    task = make_task(load_bytes(MODEL, fusion="none", in_place=in_place), chip)
    blocks = {"a": (2, 0, 2), "b": (1, 1, 4), "c": (0, 2, 3), "d": (4, 3, 5), "e": (2, 4, 5)}
    if in_place != "none":
        blocks |= {"c": (2, 2, 3), "d": (2, 3, 5), "e": (1, 4, 5)}  # over a, over c, over b
    plan = planned(task, **{name: (k * SIZE, first, last) for name, (k, first, last) in blocks.items()})
    written, offline = with_offline_plan(MODEL, task, plan)
    assert offline.planned == 7
    assert len(plan.handed_over(task.program)) == (3 if in_place != "none" else 0)
    assert (result(written) == result(MODEL)).all()

    numbers = np.array([1, 0, len(TENSORS), *offline.offsets], "<i4")
    wrong = numbers.copy()
    wrong[3 + [*TENSORS].index("b")] = wrong[3 + [*TENSORS].index("d")] = 0  # where c and f are
    assert (result(written.replace(numbers.tobytes(), wrong.tobytes())) != result(MODEL)).any(), "it looks at offsets"
