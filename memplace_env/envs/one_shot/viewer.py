"""Rendering of a one-shot plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import Report
from memplace_env.placement.task import Task


def render(task: Task, plan: MemoryPlan, report: Report, mode: str) -> NDArray[np.uint8] | str:
    """Return the memory map as uint8[800, 1200, 3] (`rgb_array`), or latency and memories as text (`ansi`).

    Raises:
        VisualizationError: for `rgb_array` without matplotlib.
    """
    if mode == "ansi":
        from memplace_env.report.plans.result_tables import summary_text

        return summary_text(task, report)
    from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
    from memplace_env.report.plans.memory_map import memory_map
    from memplace_env.report.style import to_rgb

    return to_rgb(memory_map(task, EvaluatedPlan(plan, report)))
