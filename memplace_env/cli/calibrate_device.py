"""`memplace calibrate --device`: a device measured, and written as a chip."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.model_flags import ModelFlags
from memplace_env.cli.search import new_bar
from memplace_env.errors import CalibrationError, ExecutionError

DEFAULT_NAME: Final = "cuda"
DEFAULT_MIB: Final = 64
"""Of the device's memory, so that not all that networks need fits. Our choice."""


def calibrate_device(
    models: Sequence[str], flags: ModelFlags, path: Path, *, name: str, capacity_mib: int, json: bool
) -> None:
    """Measure the device and each different op of the models, write the chip, and show what was measured.

    Raises:
        MemPlaceError: there is no device, or a model cannot run on it; nothing is written then.
    """
    host_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if capacity_mib * 2**20 >= host_bytes:
        raise CalibrationError(
            f"--capacity {capacity_mib} is as much as the host has, {host_bytes // 2**20} MiB; pass less."
        )
    _require_torch()
    from memplace_env.accelerator.load import build, parse
    from memplace_env.device.calibration import MEASUREMENTS, measure_numbers, measure_ops, unmeasured
    from memplace_env.device.chip_file import description
    from memplace_env.device.cuda import open_cuda
    from memplace_env.files import write_atomically
    from memplace_env.resolve import resolve_task
    from memplace_env.views.tables.device import device_table

    memories: dict[str, Any] = {"name": name, "capacity_bytes": capacity_mib * 2**20, "host_bytes": host_bytes}
    chip = build(parse(description(unmeasured(**memories), {})))
    asked = {model: flags.arguments(model) for model in models}
    tasks = {
        model: resolve_task(**{**settings, "accelerator": chip, "costs": "roofline"})
        for model, settings in asked.items()
    }
    device = open_cuda()
    op_ns: dict[str, float] = {}
    with new_bar(counted=True) as bar:
        shown = bar.add_task(f"measuring {device.name}", total=MEASUREMENTS)
        numbers = measure_numbers(device, **memories, progress=lambda: bar.advance(shown))
        for model, task in tasks.items():
            bar.reset(shown, total=2 * task.program.num_ops, description=f"timing the ops of {model}")
            op_ns |= measure_ops(task, device, op_ns, progress=lambda: bar.advance(shown))
    write_atomically(path, description(numbers, op_ns))
    if json:
        print_json({**asdict(numbers), "models": list(tasks), "op_ns": op_ns, "written": str(path)})
        return
    console = stdout()
    console.print(device_table(numbers, op_ns), "")
    console.print(f"Written: {path}", soft_wrap=True)


def _require_torch() -> None:
    if find_spec("torch") is None:
        raise ExecutionError(
            "Measuring a device needs PyTorch, which is not installed; try: pip install 'memplace[agents]'."
        )
