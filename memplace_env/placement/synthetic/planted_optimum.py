"""Optimal latencies that need no proof by search: those of planted programs where they were planted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from memplace_env.machine.accelerator import is_shipped, load_accelerator
from memplace_env.machine.costs import Roofline
from memplace_env.placement.synthetic.specs import from_spec
from memplace_env.placement.synthetic.topologies import TOPOLOGIES
from memplace_env.placement.task import Task, derived

_PREFIXES: Final = tuple(f"synthetic:{topology}?" for topology in TOPOLOGIES)


@derived
def planted_optimum_ps(task: Task) -> int | None:
    """Return the optimal latency in picoseconds of a planted program, on the chip and at the costs it was planted for.

    It is the sum of the ops' work: no plan is faster, and the planted levels reach it, see `planted`.

    Returns:
        None for any other program, chip or costs, or if a black box times plans.
    """
    name, chip = task.program.name, task.accelerator
    if task.is_black_box or not name.startswith(_PREFIXES) or not name.endswith(f"&accelerator={chip.name}"):
        return None
    if not is_shipped(chip.name) or load_accelerator(chip.name).sha256 != chip.sha256:
        return None
    if from_spec(name).sha256 != task.program.sha256:
        return None
    pairs: Iterable[tuple[Any, Any]] = zip(task.costs, Roofline().costs(task.program, chip), strict=True)
    if not all(np.array_equal(here, there) for here, there in pairs):
        return None
    return int(task.costs.work_ps.sum())
