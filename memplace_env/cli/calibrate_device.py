"""`memplace calibrate --device`: measure a device and write it as a chip."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from memplace_env._lib.errors import CalibrationError, ExecutionError
from memplace_env.cli.agent_run import new_bar
from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.model_flags import ModelFlags

DEFAULT_NAME: Final = "cuda"
DEFAULT_MIB: Final = 64
"""MiB of the device's memory that plans may use, so that networks do not fit whole. Our choice."""


def calibrate_device(
    models: Sequence[str], flags: ModelFlags, path: Path, *, name: str, capacity_mib: int, json: bool
) -> None:
    """Measure the device and each different op of the models, write the chip, and show the measurements.

    Raises:
        MemPlaceError: there is no device, or a model cannot run on it; nothing is written then.
    """
    host_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if capacity_mib * 2**20 >= host_bytes:
        raise CalibrationError(
            f"--capacity {capacity_mib} must be less than the memory of the host, {host_bytes // 2**20} MiB."
        )
    _require_torch()
    from memplace_env._lib.files import write_atomically
    from memplace_env.backends.cuda.chip_file import description
    from memplace_env.backends.cuda.cuda import open_cuda
    from memplace_env.backends.cuda.device_calibration import MEASUREMENTS, measure_numbers, measure_ops, unmeasured
    from memplace_env.backends.cuda.measurement_table import device_table
    from memplace_env.machine.accelerator.load import build, parse
    from memplace_env.placement.resolve_task import resolve_task

    memories: dict[str, Any] = {"name": name, "capacity_bytes": capacity_mib * 2**20, "host_bytes": host_bytes}
    chip = build(parse(description(unmeasured(**memories), {})))
    settings = {model: flags.arguments(model) for model in models}
    tasks = {
        model: resolve_task(**{**arguments, "accelerator": chip, "costs": "roofline"})
        for model, arguments in settings.items()
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
            'Measuring a device needs PyTorch, which is not installed; run: pip install "memplace[agents]".'
        )
