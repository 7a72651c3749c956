"""Pictures of a one-shot plan."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env.accelerator import Accelerator
from memplace_env.envs.one_shot.problem import OneShotProblem
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import Report
from memplace_env.workload.program import Program


def render(
    program: Program,
    accelerator: Accelerator,
    plan: MemoryPlan,
    report: Report,
    problem: OneShotProblem,
    mode: str,
) -> NDArray[np.uint8] | str:
    """`rgb_array`: the memory map as uint8[800, 1200, 3]; `ansi`: latency, speed-up and each memory in a few lines.

    Raises:
        VisualizationError: for `rgb_array` without matplotlib.
    """
    if mode == "ansi":
        from memplace_env.views.tables import summary_text

        return summary_text(program, accelerator, report, problem.native_report)
    from memplace_env.views.figure import to_rgb
    from memplace_env.views.memory_map import memory_map

    return to_rgb(memory_map(program, accelerator, plan, report, problem.native_report))
