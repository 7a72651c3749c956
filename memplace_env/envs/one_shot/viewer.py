"""Pictures of a one-shot plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.compiler import native_report
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report
from memplace_env.task import Task


def render(task: Task, plan: MemoryPlan, report: Report, mode: str) -> NDArray[np.uint8] | str:
    """`rgb_array`: the memory map as uint8[800, 1200, 3]; `ansi`: latency, speed-up and each memory in a few lines.

    Raises:
        VisualizationError: for `rgb_array` without matplotlib.
    """
    if mode == "ansi":
        from memplace_env.views.tables import summary_text

        return summary_text(task, report, native_report(task))
    from memplace_env.views.figure import to_rgb
    from memplace_env.views.memory_map import memory_map

    return to_rgb(memory_map(task, plan, report, native_report(task)))
