"""Pictures of a one-shot plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report
from memplace_env.task import Task


def render(task: Task, plan: MemoryPlan, report: Report, mode: str) -> NDArray[np.uint8] | str:
    """`rgb_array`: the memory map as uint8[800, 1200, 3]; `ansi`: latency, speed-up and each memory in a few lines.

    Raises:
        VisualizationError: for `rgb_array` without matplotlib.
    """
    if mode == "ansi":
        from memplace_env.views.tables.results import summary_text

        return summary_text(task, report)
    from memplace_env.analysis.judged import Judged
    from memplace_env.views.figures.plan import memory_map
    from memplace_env.views.style import to_rgb

    return to_rgb(memory_map(task, Judged(plan, report)))
