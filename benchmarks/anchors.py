"""Published figures beside what the simulator says.

python -m benchmarks.anchors
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.tables import markdown
from memplace_env.accelerator import Accelerator, load_accelerator
from memplace_env.compiler import all_backing_report, native_report, place_mapping
from memplace_env.resolve import make_task
from memplace_env.simulator import Report, judge_plan
from memplace_env.task import Task
from memplace_env.workload.resolve import resolve_workload

PUBLISHED_IMAGES_PER_S = 3600
"""ResNet-50, int8, on an NNP-I at 10 W: Intel at Hot Chips 31."""


def unlimited(chip: Accelerator) -> Accelerator:
    """The same chip with room for everything in its fastest memory."""
    room = chip.levels[-1].capacity_bytes
    return replace(chip, levels=(replace(chip.levels[0], capacity_bytes=room), *chip.levels[1:]))


def all_fast_report(task: Task) -> Report:
    """What it costs to have everything that may leave the backing memory in the fastest one."""
    return judge_plan(task, place_mapping(task, np.zeros(task.program.num_tensors, dtype=np.int64)).plan)


def images_per_s() -> dict[str, float]:
    """ResNet-50, int8, batch 1 on nnp-i: everything in DRAM, native, and everything in an unlimited SRAM."""
    chip = load_accelerator("nnp-i")
    program = resolve_workload("ResNet50", batch=1, dtype="int8", fusion=chip.fusion)
    task = make_task(program, chip)
    return {
        "all in DRAM": 1 / all_backing_report(task).latency_s,
        "native": 1 / native_report(task).latency_s,
        "all in SRAM, unlimited": 1 / all_fast_report(make_task(program, unlimited(chip))).latency_s,
    }


def main() -> None:
    rows = [[f"simulated, {name}", f"{rate:.0f}"] for name, rate in images_per_s().items()]
    rows.append(["published", str(PUBLISHED_IMAGES_PER_S)])
    print(markdown(["ResNet-50, int8, batch 1 on nnp-i", "images/s"], sorted(rows, key=lambda row: int(row[1]))))


if __name__ == "__main__":
    main()
