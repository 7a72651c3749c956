"""`memplace calibrate`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from math import exp, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from memplace_env._lib.errors import CalibrationError, ExecutionError
from memplace_env.cli.agent_run import new_bar
from memplace_env.cli.console import print_json, slug, stderr, stdout
from memplace_env.cli.measurements import read_measurements
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.shared_options import FileFlag, ForceFlag, JsonFlag, NoiseFlag

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from memplace_agents.calibrated.machine_model import MachineModel
    from memplace_env.report.calibration import Calibration, Measurement

DEFAULT_NAME: Final = "cuda"
DEFAULT_MIB: Final = 64
"""MiB of the device's memory that plans may use, so that networks do not fit whole. Our choice."""
CALIBRATED: Final = "-calibrated"
"""End of a fitted chip's name."""
ROWS: Final = 10
"""Factors of a machine that the table shows."""


@model_flags(without=["dtype", "simulator"])
def calibrate(
    measurements: Annotated[
        Path | None, typer.Argument(metavar="MEASUREMENTS", help="A .csv file of measured latencies.")
    ] = None,
    *,
    flags: ModelFlags,
    fit: Annotated[
        list[str] | None,
        typer.Option("--fit", metavar="NAME", help="A constant to fit, such as DRAM.efficiency; repeat."),
    ] = None,
    device: Annotated[
        Literal["cuda"] | None, typer.Option("--device", help="Measure this device instead of fitting.")
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="MODEL", help="A network whose ops are timed on the device; repeat."),
    ] = None,
    capacity: Annotated[
        int | None, typer.Option("--capacity", min=1, help="MiB of the device that plans may use; default 64.")
    ] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="PATH", help="A .csv file to learn from; repeat."),
    ] = None,
    noise: NoiseFlag = 0.0,
    out: FileFlag = None,
    force: ForceFlag = False,
    json: JsonFlag = False,
) -> None:
    """Fit an accelerator's few free constants to measured latencies, and write it as CHIP-calibrated.toml.

    Columns: model and latency_ms; optional: batch, dtype, dims ("sequence=384 decoder_sequence=128") and plan, the
    saved plan that was measured (otherwise the compiler's own). Constants: compute.efficiency, op_overhead_ns and each
    LEVEL.efficiency. Without --fit as many are fitted as there are measurements.

    With --device cuda and at least one --model, measure a GPU instead: its bus, memory and units, and each different op
    of these models in float32 (--batch, --dim). The result is a chip with the cost model 'measured': cuda.toml, or
    --out NAME.toml, which names the chip.

    With --from, learn cost factors of the machine instead, by kind of op and level, from such .csv files of measured
    plans. They are written to CHIP-machine.json. 'memplace solve MODEL --agent calibrated --machine FILE' uses them for
    another program.
    """
    if [measurements is None, device is None, not sources].count(False) != 1:
        raise CalibrationError(
            "Pass either a .csv file of measured latencies, or --device cuda with --model MODEL, or --from PATH."
        )
    of_file = {
        "--fit": fit,
        "--accelerator": flags.accelerator,
        "--fusion": flags.fusion,
        "--in-place": flags.in_place,
        "--patterns": flags.patterns,
        "--costs": flags.costs,
    }
    of_device = {"--model": model, "--capacity": capacity, "--batch": flags.batch, "--dim": flags.dims}
    if sources:
        _refuse({**of_device, "--fit": fit}, "--from")
        path, values, shown = _learned(sources, flags, noise, out, force)
    elif measurements is not None:
        _refuse({"--noise": noise or None}, "measurements that are not passed by --from")
        _refuse(of_device, "a file of measurements; it is for --device")
        path, values, shown = _fitted(measurements, flags, fit, out, force)
    else:
        _refuse({"--noise": noise or None}, "measurements that are not passed by --from")
        _refuse(of_file, "--device; it is for a file of measurements")
        path, values, shown = _measured(model or [], flags, capacity or DEFAULT_MIB, out, force)
    if json:
        print_json({**values, "written": str(path)})
        return
    for part in shown:
        stdout().print(part, soft_wrap=isinstance(part, str))
    stdout().print(f"Written: {path}", soft_wrap=True)


Written = tuple[Path, dict[str, Any], Iterable["RenderableType"]]
"""The file that was written, what is in it as plain values, and as it is printed."""


def _refuse(options: dict[str, Any], reason: str) -> None:
    for option, value in options.items():
        if value not in (None, []):
            raise CalibrationError(f"{option} cannot go with {reason}: leave it out.")


def _path(out: Path | None, name: str, force: bool) -> Path:
    path = out or Path(slug(name))
    if path.is_dir() or (path.exists() and not force):
        raise CalibrationError(f"{path} exists already; pass another --out, or --force to overwrite a file.")
    return path


def _fitted(measurements: Path, flags: ModelFlags, fit: list[str] | None, out: Path | None, force: bool) -> Written:
    """Fit a chip's constants to the measurements in a file, and write the chip."""
    from memplace_env._lib.files import write_atomically
    from memplace_env.machine.accelerator.description import Description
    from memplace_env.report.calibration import calibrate
    from memplace_env.report.calibration.calibration import calibration_tables, error_text

    description = Description.read(flags.chip)
    name = str(description.document["name"]) + CALIBRATED
    path = _path(out, f"{name}.toml", force)
    with stderr().status("simulating candidates"):
        measured = read_measurements(measurements, flags)
        calibration = calibrate(description, measured, costs=flags.costs, fit=fit)
    write_atomically(path, description.rewritten(name, calibration.values, _source(measurements, calibration)))
    tables = [part for table in calibration_tables(calibration) for part in (table, "")]
    return path, calibration.to_json(), [*tables, error_text(calibration)]


def _source(measurements: Path, calibration: Calibration) -> str:
    from memplace_env.report.quantities import percent

    before, after = (percent(calibration.error(latency)) for latency in (calibration.before_s, calibration.after_s))
    file = "".join(letter if letter.isprintable() else "?" for letter in measurements.name)
    return (
        f"Fitted by memplace calibrate to {len(calibration.measurements)} measurements in {file}, geometric mean error "
        f"{before} -> {after}."
    )


def _measured(models: Sequence[str], flags: ModelFlags, capacity_mib: int, out: Path | None, force: bool) -> Written:
    """Measure the device and each different op of the models, and write the chip.

    Raises:
        MemPlaceError: there is no device, or a model cannot run on it; nothing is written then.
    """
    if not models:
        raise CalibrationError("--device needs networks whose ops are timed; pass --model MODEL.")
    path = _path(out, f"{DEFAULT_NAME}.toml", force)
    host_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if capacity_mib * 2**20 >= host_bytes:
        raise CalibrationError(
            f"--capacity {capacity_mib} must be less than the memory of the host, {host_bytes // 2**20} MiB."
        )
    if find_spec("torch") is None:
        raise ExecutionError(
            'Measuring a device needs PyTorch, which is not installed; run: pip install "memplace[agents]".'
        )
    from memplace_env._lib.files import write_atomically
    from memplace_env.backends.cuda.chip_file import description
    from memplace_env.backends.cuda.cuda import open_cuda
    from memplace_env.backends.cuda.device_calibration import (
        MEASUREMENTS,
        device_table,
        measure_numbers,
        measure_ops,
        unmeasured,
    )
    from memplace_env.machine.accelerator.load import build, parse
    from memplace_env.placement.resolve_task import resolve_task

    memories: dict[str, Any] = {"name": path.stem, "capacity_bytes": capacity_mib * 2**20, "host_bytes": host_bytes}
    chip = build(parse(description(unmeasured(**memories), {})))
    tasks = {
        model: resolve_task(**{**flags.arguments(model), "accelerator": chip, "costs": "roofline"}) for model in models
    }
    device = open_cuda()
    op_ns: dict[str, float] = {}
    with new_bar(counted=True) as bar:
        line = bar.add_task(f"measuring {device.name}", total=MEASUREMENTS)
        numbers = measure_numbers(device, **memories, progress=lambda: bar.advance(line))
        for model, task in tasks.items():
            bar.reset(line, total=2 * task.program.num_ops, description=f"timing the ops of {model}")
            op_ns |= measure_ops(task, device, op_ns, progress=lambda: bar.advance(line))
    write_atomically(path, description(numbers, op_ns))
    return path, {**asdict(numbers), "models": list(tasks), "op_ns": op_ns}, [device_table(numbers, op_ns), ""]


def _learned(sources: Sequence[Path], flags: ModelFlags, noise: float, out: Path | None, force: bool) -> Written:
    """Learn a machine from measured plans, program by program, and write it.

    Raises:
        CalibrationError: naming the file that cannot be used.
    """
    from memplace_agents.calibrated.machine_model import MachineModel
    from memplace_env.machine.accelerator import load_accelerator
    from memplace_env.placement.compiler import native_plan

    path = _path(out, f"{load_accelerator(flags.chip).name}-machine.json", force)
    by_program: dict[str, list[Measurement]] = defaultdict(list)
    with stderr().status("reading measurements"):
        for source in sources:
            for row in read_measurements(source, flags):
                by_program[row.task.program.sha256].append(row)
    with stderr().status("learning"):
        machine: MachineModel | None = None
        for rows in by_program.values():
            task = rows[0].task
            plans = [row.plan or native_plan(row.task) for row in rows]
            latencies_s = [row.latency_s for row in rows]
            machine = (machine or MachineModel.of(task)).learned(task, plans, latencies_s, noise)
    assert machine is not None
    machine.save(path)
    deviation = [sqrt(variance) for variance in machine.covariance.diagonal().tolist()]
    known = sorted(zip(deviation, machine.names, machine.mean.tolist(), strict=True))
    values: dict[str, Any] = {
        "chip": machine.chip,
        "costs": machine.costs,
        "programs": [{"name": name, "measurements": count} for name, count in machine.programs],
        "factors": {name: {"factor": exp(mean), "sigma": sigma} for sigma, name, mean in known},
    }
    return path, values, [_machine_table(machine, values["factors"]), ""]


def _machine_table(machine: MachineModel, factors: Mapping[str, Mapping[str, float]]) -> Table:
    from memplace_env.report.quantities import percent
    from memplace_env.report.tables import add_row, new_table

    table = new_table(
        f"Machine of {machine.chip}", "factor on costs", "times nominal", "standard deviation",
        caption=f"{sum(count for _, count in machine.programs)} measurements of {len(machine.programs)} programs. The "
        f"{ROWS} factors that are known best of {len(machine.names)}.",
    )  # fmt: skip
    for name, factor in [*factors.items()][:ROWS]:
        add_row(table, name, f"{factor['factor']:.3f}", percent(factor["sigma"]))
    return table
