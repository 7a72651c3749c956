"""`memplace calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from memplace_env._lib.errors import CalibrationError
from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.measurements import read_measurements
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.shared_options import JsonFlag

if TYPE_CHECKING:
    from memplace_env.report.calibration import Calibration

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
    name: Annotated[str | None, typer.Option("--name", help="Name of the device's chip; default cuda.")] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option("--from", metavar="PATH", help="A .csv file to learn from; repeat."),
    ] = None,
    noise: Annotated[
        float, typer.Option("--noise", min=0, max=1, help="Relative standard deviation of what --from measured.")
    ] = 0.0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", help="The file to write; default CHIP-calibrated.toml, NAME.toml or CHIP-machine.json."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
    json: JsonFlag = False,
) -> None:
    """Fit an accelerator's few free constants to measured latencies, and write it as a new .toml file.

    Columns: model and latency_ms; optional: batch, dtype, dims ("sequence=384 decoder_sequence=128") and plan, the
    saved plan that was measured (otherwise the compiler's own). Constants: compute.efficiency, op_overhead_ns and each
    LEVEL.efficiency; without --fit as many as there are measurements.

    Or, with --device cuda and at least one --model, measure a GPU: its bus, memory and units, and each different op of
    these models in float32 (--batch, --dim), and write it as a chip with the cost model 'measured'.

    Or, with --from, learn the factors of the chip's costs by kind of op and level from measured plans of programs, the
    rows of such .csv files. 'memplace solve MODEL --agent calibrated --machine FILE' begins with them on another
    program.
    """
    if [measurements is None, device is None, not sources].count(False) != 1:
        raise CalibrationError(
            "Pass either a .csv file of measured latencies, or --device cuda with --model MODEL, or --from PATH."
        )
    of_file = {"--fit": fit, "--accelerator": flags.accelerator, "--fusion": flags.fusion, "--costs": flags.costs}
    of_device = {"--model": model, "--capacity": capacity, "--name": name, "--batch": flags.batch, "--dim": flags.dims}
    if sources:
        from memplace_env.cli.calibrate_machine import learn_machine
        from memplace_env.machine.accelerator import load_accelerator

        _refuse({**of_device, "--fit": fit}, "--from")
        path = _path(output, f"{load_accelerator(flags.chip).name}-machine", force, "json")
        learn_machine(sources, flags, path, noise=noise, json=json)
        return
    _refuse({"--noise": noise or None}, "measurements that are not passed by --from")
    if measurements is not None:
        _refuse(of_device, "a file of measurements; it is for --device")
        _fit(measurements, flags, fit, output=output, force=force, json=json)
        return
    _refuse(of_file, "--device; it is for a file of measurements")
    if not model:
        raise CalibrationError("--device needs networks whose ops are timed; pass --model MODEL.")
    from memplace_env.cli.calibrate_device import DEFAULT_MIB, DEFAULT_NAME, calibrate_device

    name = DEFAULT_NAME if name is None else name
    path = _path(output, name, force)
    calibrate_device(model, flags, path, name=name, capacity_mib=capacity or DEFAULT_MIB, json=json)


def _refuse(options: dict[str, Any], reason: str) -> None:
    for option, value in options.items():
        if value not in (None, []):
            raise CalibrationError(f"{option} cannot go with {reason}: leave it out.")


def _path(output: Path | None, name: str, force: bool, end: str = "toml") -> Path:
    from memplace_env.cli.output import slug

    path = output or Path(f"{slug(name)}.{end}")
    if path.is_dir() or (path.exists() and not force):
        raise CalibrationError(f"{path} exists already; pass another --output, or --force to overwrite a file.")
    return path


def _fit(
    measurements: Path, flags: ModelFlags, fit: list[str] | None, *, output: Path | None, force: bool, json: bool
) -> None:
    from memplace_env._lib.files import write_atomically
    from memplace_env.machine.accelerator.description import Description
    from memplace_env.report.calibration import calibrate
    from memplace_env.report.calibration.calibration_tables import calibration_tables, error_text

    description = Description.read(flags.chip)
    name = str(description.document["name"]) + CALIBRATED
    path = _path(output, name, force)
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
