"""`memplace calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memplace_env.cli.console import print_json, stderr, stdout
from memplace_env.cli.measurements import read_measurements
from memplace_env.cli.model_flags import ModelFlags, model_flags
from memplace_env.cli.options import JsonFlag
from memplace_env.errors import CalibrationError

if TYPE_CHECKING:
    from memplace_env.analysis.calibration import Calibration

CALIBRATED = "-calibrated"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: memplace calibrate measured.csv --accelerator my-chip.toml")(calibrate)


@model_flags(without=["batch", "dim", "dtype", "simulator"])
def calibrate(
    measurements: Annotated[Path, typer.Argument(metavar="MEASUREMENTS", help="A .csv file of measured latencies.")],
    *,
    flags: ModelFlags,
    fit: Annotated[
        list[str] | None,
        typer.Option("--fit", metavar="NAME", help="A constant to fit, such as DRAM.efficiency; repeat."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="The .toml file to write; default CHIP-calibrated.toml.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
    json: JsonFlag = False,
) -> None:
    """Fit an accelerator's few free constants to measured latencies, and write it as a new .toml file.

    Columns: model and latency_ms; where wanted batch, dtype, dims ("sequence=384 decoder_sequence=128") and plan, a
    saved plan that was measured (otherwise the compiler's own). Constants: compute.efficiency, op_overhead_ns and each
    LEVEL.efficiency; without --fit as many as there are measurements.
    """
    from memplace_env.accelerator.description import Description
    from memplace_env.analysis.calibration import calibrate
    from memplace_env.cli.output import slug
    from memplace_env.files import write_atomically
    from memplace_env.views.tables.calibration import calibration_tables, error_text

    description = Description.read(flags.chip)
    name = str(description.document["name"]) + CALIBRATED
    path = output or Path(f"{slug(name)}.toml")
    if path.is_dir() or (path.exists() and not force):
        raise CalibrationError(f"{path} exists already; pass another --output, or --force to overwrite a file.")
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
    from memplace_env.views.text.quantities import percent

    before, after = (percent(calibration.error(latency)) for latency in (calibration.before_s, calibration.after_s))
    file = "".join(letter if letter.isprintable() else "?" for letter in measurements.name)
    return (
        f"Fitted by memplace calibrate to {len(calibration.measurements)} measurements in {file}, geometric mean error "
        f"{before} -> {after}."
    )
