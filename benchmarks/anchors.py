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
from memplace_env.simulator import judge_plan
from memplace_env.workload.resolve import resolve_workload

PUBLISHED_IMAGES_PER_S = 3600
"""ResNet-50, int8, on an NNP-I at 10 W: Intel at Hot Chips 31."""


def unlimited(chip: Accelerator) -> Accelerator:
    """The same chip with room for everything in its fastest memory."""
    room = chip.levels[-1].capacity_bytes
    return replace(chip, levels=(replace(chip.levels[0], capacity_bytes=room), *chip.levels[1:]))


def images_per_s() -> dict[str, float]:
    """ResNet-50, int8, batch 1 on nnp-i: everything in DRAM, native, and everything in an unlimited SRAM."""
    chip = load_accelerator("nnp-i")
    program = resolve_workload("ResNet50", batch=1, dtype="int8", fusion=chip.fusion)
    task, endless = make_task(program, chip), make_task(program, unlimited(chip))
    all_fast = place_mapping(endless, np.zeros(program.num_tensors, dtype=np.int64)).plan
    reports = {
        "all in DRAM": all_backing_report(task),
        "native": native_report(task),
        "all in SRAM, unlimited": judge_plan(endless, all_fast),
    }
    return {name: 1 / report.latency_s for name, report in reports.items()}


def main() -> None:
    rows = [[f"simulated, {name}", f"{rate:.0f}"] for name, rate in images_per_s().items()]
    rows.append(["published", str(PUBLISHED_IMAGES_PER_S)])
    print(markdown(["ResNet-50, int8, batch 1 on nnp-i", "images/s"], sorted(rows, key=lambda row: int(row[1]))))


if __name__ == "__main__":
    main()
