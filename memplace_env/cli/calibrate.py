"""`memplace calibrate`."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from math import exp, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from memplace_env._lib.errors import CalibrationError, ExecutionError
from memplace_env.cli.agent_run import new_bar
from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.measurements import read_measurements
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.shared_options import FileFlag, ForceFlag, JsonFlag, NoiseFlag

if TYPE_CHECKING:
    from rich.table import Table

    from memplace_agents.calibrated.machine_model import MachineModel
    from memplace_env.placement.memory_plan import MemoryPlan
    from memplace_env.placement.task import Task
    from memplace_env.report.calibration import Calibration


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


ROWS: Final = 10
"""Factors that the table shows."""
Measured = tuple["Task", "MemoryPlan", float]


def learn_machine(sources: Sequence[Path], flags: ModelFlags, path: Path, *, noise: float, json: bool) -> None:
    """Learn a machine from measured plans, program by program, and write it.

    Args:
        sources: .csv files of measured latencies.
        flags: the chip and its cost model.
        path: the file to write.
        noise: relative standard deviation of the measurements.
        json: True to print JSON instead of a table.

    Raises:
        CalibrationError: naming the file that cannot be used.
    """
    from memplace_agents.calibrated.machine_model import MachineModel, MeasuredProgram

    by_program: dict[str, list[Measured]] = defaultdict(list)
    with stderr().status("reading measurements"):
        for source in sources:
            for task, plan, latency_s in _listed(source, flags):
                by_program[task.program.sha256].append((task, plan, latency_s))
    learned = [
        MeasuredProgram(rows[0][0], *zip(*(row[1:] for row in rows), strict=True)) for rows in by_program.values()
    ]
    machine = MachineModel.of(learned[0].task)
    with stderr().status("learning"):
        for program in learned:
            machine = machine.learned(program, noise)
    machine.save(path)
    if json:
        print_json({**_summary(machine), "written": str(path)})
        return
    stdout().print(_table(machine), "")
    stdout().print(f"Written: {path}", soft_wrap=True)


def _listed(path: Path, flags: ModelFlags) -> Iterator[Measured]:
    """Yield the measurements of a .csv file; those without a plan are of native's."""
    from memplace_env.placement.compiler import native_plan

    for row in read_measurements(path, flags):
        yield row.task, row.plan or native_plan(row.task), row.latency_s


def _factors(machine: MachineModel) -> dict[str, tuple[float, float]]:
    """Return factor and relative standard deviation by name, those that were learned best first."""
    deviation = [sqrt(variance) for variance in machine.covariance.diagonal().tolist()]
    known = sorted(zip(deviation, machine.names, machine.mean.tolist(), strict=True))
    return {name: (exp(mean), sigma) for sigma, name, mean in known}


def _summary(machine: MachineModel) -> dict[str, object]:
    programs = [{"name": name, "measurements": count} for name, count in machine.programs]
    factors = {name: {"factor": factor, "sigma": sigma} for name, (factor, sigma) in _factors(machine).items()}
    return {"chip": machine.chip, "costs": machine.costs, "programs": programs, "factors": factors}


def _table(machine: MachineModel) -> Table:
    from memplace_env.report.quantities import percent
    from memplace_env.report.tables import add_row, new_table

    count = sum(count for _, count in machine.programs)
    table = new_table(
        f"Machine of {machine.chip}", "factor on costs", "times nominal", "standard deviation",
        caption=f"{count} measurements of {len(machine.programs)} programs. The {ROWS} factors that are known best of "
        f"{len(machine.names)}.",
    )  # fmt: skip
    for name, (factor, sigma) in [*_factors(machine).items()][:ROWS]:
        add_row(table, name, f"{factor:.3f}", percent(sigma))
    return table


CALIBRATED = "-calibrated"


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
    device: Annotated[Literal["cuda"] | None, typer.Option("--device", help="Measure this device instead.")] = None,
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
    LEVEL.efficiency; without --fit as many as there are measurements.

    Or, with --device cuda and at least one --model, measure a GPU: its bus, memory and units, and each different op of
    these models in float32 (--batch, --dim), and write it as a chip with the cost model 'measured': cuda.toml, or --out
    NAME.toml, which names the chip.

    Or, with --from, learn the factors of the chip's costs by kind of op and level from measured plans of programs, the
    rows of such .csv files, and write them to CHIP-machine.json. 'memplace solve MODEL --agent calibrated --machine
    FILE' begins with them on another program.
    """
    if [measurements is None, device is None, not sources].count(False) != 1:
        raise CalibrationError(
            "Pass either a .csv file of measured latencies, or --device cuda with --model MODEL, or --from PATH."
        )
    of_file = {"--fit": fit, "--accelerator": flags.accelerator, "--fusion": flags.fusion, "--costs": flags.costs}
    of_device = {"--model": model, "--capacity": capacity, "--batch": flags.batch, "--dim": flags.dims}
    if sources:
        from memplace_env.machine.accelerator import load_accelerator

        _refuse({**of_device, "--fit": fit}, "--from")
        path = _path(out, f"{load_accelerator(flags.chip).name}-machine", force, "json")
        learn_machine(sources, flags, path, noise=noise, json=json)
        return
    _refuse({"--noise": noise or None}, "measurements that are not passed by --from")
    if measurements is not None:
        _refuse(of_device, "a file of measurements; it is for --device")
        _fit(measurements, flags, fit, out=out, force=force, json=json)
        return
    _refuse(of_file, "--device; it is for a file of measurements")
    if not model:
        raise CalibrationError("--device needs networks whose ops are timed; pass --model MODEL.")

    path = _path(out, DEFAULT_NAME, force)
    calibrate_device(model, flags, path, name=path.stem, capacity_mib=capacity or DEFAULT_MIB, json=json)


def _refuse(options: dict[str, Any], reason: str) -> None:
    for option, value in options.items():
        if value not in (None, []):
            raise CalibrationError(f"{option} cannot go with {reason}: leave it out.")


def _path(out: Path | None, name: str, force: bool, end: str = "toml") -> Path:
    from memplace_env.cli.console import slug

    path = out or Path(f"{slug(name)}.{end}")
    if path.is_dir() or (path.exists() and not force):
        raise CalibrationError(f"{path} exists already; pass another --out, or --force to overwrite a file.")
    return path


def _fit(
    measurements: Path, flags: ModelFlags, fit: list[str] | None, *, out: Path | None, force: bool, json: bool
) -> None:
    from memplace_env._lib.files import write_atomically
    from memplace_env.machine.accelerator.description import Description
    from memplace_env.report.calibration import calibrate
    from memplace_env.report.calibration.calibration_tables import calibration_tables, error_text

    description = Description.read(flags.chip)
    name = str(description.document["name"]) + CALIBRATED
    path = _path(out, name, force)
    with stderr().status("simulating candidates"):
        measured = read_measurements(measurements, flags)
        calibration = calibrate(description, measured, costs=flags.costs, fit=fit)
    write_atomically(path, description.rewritten(name, calibration.values, _source(measurements, calibration)))
    if json:
        print_json({**calibration.to_json(), "written": str(path)})
        return
    console = stdout()
    for table in calibration_tables(calibration):
        console.print(table, "")
    console.print(error_text(calibration), soft_wrap=True)
    console.print(f"Written: {path}", soft_wrap=True)


def _source(measurements: Path, calibration: Calibration) -> str:
    from memplace_env.report.quantities import percent

    before, after = (percent(calibration.error(latency)) for latency in (calibration.before_s, calibration.after_s))
    file = "".join(letter if letter.isprintable() else "?" for letter in measurements.name)
    return (
        f"Fitted by memplace calibrate to {len(calibration.measurements)} measurements in {file}, geometric mean error "
        f"{before} -> {after}."
    )
