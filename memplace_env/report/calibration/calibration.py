"""Fit a chip's free constants so that simulated latencies match measured ones, and tables of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from rich.table import Table

from memplace_env._lib.errors import CalibrationError
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.accelerator.description import Description, Field
from memplace_env.machine.costs import CostModel
from memplace_env.placement.compiler import native_report
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.task import Task
from memplace_env.report.calibration.chip_constants import chosen_constants, values_at
from memplace_env.report.calibration.least_squares import Fitted, Floats, Residuals, evaluated, fitted_coordinates
from memplace_env.report.quantities import percent, ratio, seconds, shortened
from memplace_env.report.tables import NONE, add_row, new_table

SEARCHED, WRITTEN = 12, 6
"""Decimal digits of an efficiency while a fit searches, and in its result."""
LEFT_OUT = 4
"""Number of measurements from which each is also predicted from the others."""


class Measurement(NamedTuple):
    """One measured latency.

    Attributes:
        name: its name in tables.
        task: the program on the chip as described; its costs are made anew for each candidate.
        latency_s: seconds.
        plan: the measured plan, valid for the task; None: native's.
    """

    name: str
    task: Task
    latency_s: float
    plan: MemoryPlan | None = None


class Calibration(NamedTuple):
    """The result of a fit.

    Attributes:
        description: description of the chip before the fit.
        measurements: N of them.
        constants: those that were fitted.
        left: names of the other constants, with the reasons.
        values: new values for the description.
        before_s, after_s: float64[N], simulated latencies with the old constants and with the new ones, as written.
        left_out_s: float64[N], each simulated with constants fitted to the others; None for fewer than 4 measurements.
    """

    description: Description
    measurements: tuple[Measurement, ...]
    constants: tuple[Fitted, ...]
    left: Mapping[str, str]
    values: Mapping[Field, Decimal]
    before_s: Floats
    after_s: Floats
    left_out_s: Floats | None

    @property
    def measured_s(self) -> Floats:
        """Measured latencies in seconds, float64[N]."""
        return np.array([measurement.latency_s for measurement in self.measurements])

    @property
    def accelerator(self) -> Accelerator:
        """The fitted chip under its old name."""
        return self.description.accelerator(self.values)

    def error(self, simulated_s: Floats) -> float:
        """Return the geometric mean error: 0.1 if latencies are off by a factor of 1.1 in geometric mean."""
        return float(np.expm1(np.abs(np.log(simulated_s / self.measured_s)).mean()))

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, times in seconds; errors are geometric means."""
        left_out = [None] * len(self.measurements) if self.left_out_s is None else self.left_out_s.tolist()
        rows = zip(self.measurements, self.before_s.tolist(), self.after_s.tolist(), left_out, strict=True)
        return {
            "accelerator": str(self.description.document["name"]),
            "constants": [
                {
                    "name": fitted.constant.name,
                    "before": fitted.constant.before,
                    "after": fitted.after,
                    **{key: getattr(fitted, key) for key in ("standard_error", "determined", "at_bound")},
                    "bounds": [fitted.constant.low, fitted.constant.high],
                }
                for fitted in self.constants
            ],
            "left": dict(self.left),
            "measurements": [
                {
                    "name": measurement.name,
                    "workload": measurement.task.program.name,
                    "measured_s": measurement.latency_s,
                    "before_s": before,
                    "after_s": after,
                    "left_out_s": alone,
                }
                for measurement, before, after, alone in rows
            ],
            "error_before": self.error(self.before_s),
            "error_after": self.error(self.after_s),
            "error_left_out": None if self.left_out_s is None else self.error(self.left_out_s),
        }


def calibrate(
    description: Description,
    measurements: Sequence[Measurement],
    *,
    costs: str | CostModel | None = None,
    fit: Sequence[str] | None = None,
) -> Calibration:
    """Fit a chip's free constants to measured latencies.

    Least squares of log(simulated / measured), so that errors count by their ratio, with the bounds of `Constant`, from
    the chip's present values and two drawn starts. Everything is deterministic.

    Args:
        description: description of the chip.
        measurements: latencies on it.
        costs: a cost model, by name or itself; None takes the chip's.
        fit: names of constants, see `constant_names`; None: all, or the first of them if measurements are fewer.

    Raises:
        CalibrationError: if there is nothing to fit, or nothing to fit it to.
        MemPlaceError: what the cost model raises.
    """
    if not measurements:
        raise CalibrationError("There are no measurements; a constant needs at least one.")
    per_op = max(measurement.latency_s / measurement.task.program.num_ops for measurement in measurements)
    constants, left = chosen_constants(description, fit, len(measurements), per_op * 1e9)

    def values_of(coordinates: Floats, digits: int) -> dict[Field, Decimal]:
        return values_at(description, constants, coordinates.tolist(), digits)

    def residuals_of(some: Sequence[Measurement]) -> Residuals:
        measured = np.array([measurement.latency_s for measurement in some])
        return _cached(
            lambda coordinates: np.log(
                _simulated_s(description.accelerator(values_of(coordinates, SEARCHED)), some, costs) / measured
            )
        )

    def simulated_s(values: Mapping[Field, Decimal], some: Sequence[Measurement]) -> Floats:
        return _simulated_s(description.accelerator(values), some, costs)

    residuals = residuals_of(measurements)
    coordinates = fitted_coordinates(residuals, constants)
    values = values_of(coordinates, WRITTEN)
    after = [float(values[constant.field]) for constant in constants]
    left_out = []
    for out in measurements if len(measurements) >= LEFT_OUT else ():
        others = [measurement for measurement in measurements if measurement is not out]
        predicted = fitted_coordinates(residuals_of(others), constants, near=coordinates)
        left_out.append(simulated_s(values_of(predicted, WRITTEN), [out])[0])
    changed = {
        constant.field: values[constant.field]
        for constant, value in zip(constants, after, strict=True)
        if value != constant.before
    }
    return Calibration(
        description,
        tuple(measurements),
        tuple(evaluated(residuals, constants, coordinates, after)),
        left,
        changed,
        simulated_s({}, measurements),
        simulated_s(changed, measurements),
        np.array(left_out) if left_out else None,
    )


def _simulated_s(chip: Accelerator, measurements: Sequence[Measurement], costs: str | CostModel | None) -> Floats:
    """Return float64[N], the latency in seconds of each measurement's plan on a candidate chip."""
    latencies = []
    for measurement in measurements:
        task = make_task(measurement.task.program, chip, costs=costs or measurement.task.settings.get("costs"))
        plan = measurement.plan
        report = native_report(task) if plan is None else evaluate_plan(task, plan, trusted=True)
        latencies.append(report.latency_s)
    return np.array(latencies)


def _cached(residuals: Callable[[Floats], Floats]) -> Residuals:
    """Return the function with a cache: slopes begin at the coordinates that the search has just evaluated."""
    values: dict[bytes, Floats] = {}

    def cached(coordinates: Floats) -> Floats:
        key = coordinates.tobytes()
        if key not in values:
            values[key] = residuals(coordinates)
        return values[key]

    return cached


def calibration_tables(calibration: Calibration) -> list[Table]:
    """Return a table of the constants, and one of measured and simulated latencies."""
    return [_constants(calibration), _residuals(calibration)]


def error_text(calibration: Calibration) -> str:
    """Return a line with the geometric mean errors."""
    before, after = (percent(calibration.error(latency)) for latency in (calibration.before_s, calibration.after_s))
    text = f"Geometric mean error: {before} before, {after} after"
    if calibration.left_out_s is None:
        return f"{text}; with fewer than 4 measurements nothing is left out to see whether it predicts others."
    return f"{text}; {percent(calibration.error(calibration.left_out_s))} where each is predicted from the others."


def _constants(calibration: Calibration) -> Table:
    table = new_table(
        f"Constants of {calibration.description.document['name']}",
        "constant", "before", "after", "standard error", "bounds", "",
        left=(0, 5),
        caption="standard error: for errors as large as those that are left; needs more measurements than constants.",
    )  # fmt: skip
    for fitted in calibration.constants:
        constant, error = fitted.constant, fitted.standard_error
        add_row(
            table,
            constant.name,
            f"{constant.before:.6g}",
            f"{fitted.after:.6g}",
            NONE if error is None else f"± {error:.2g}",
            f"{constant.low:.3g} to {constant.high:.3g}",
            _remark(fitted),
        )
    for name, why in calibration.left.items():
        add_row(table, name, NONE, NONE, NONE, NONE, f"left as it is: {why}")
    return table


def _remark(fitted: Fitted) -> str:
    if not fitted.determined:
        return "not determined by these measurements"
    return "at its bound" if fitted.at_bound else ""


def _residuals(calibration: Calibration) -> Table:
    alone = calibration.left_out_s
    table = new_table(
        "Measurements",
        "measurement", "measured", "before", "ratio", "after", "ratio", "from the others", "ratio",
        caption="ratio: simulated over measured. from the others: with constants fitted without this measurement.",
    )  # fmt: skip
    for index, measurement in enumerate(calibration.measurements):
        simulated = [
            calibration.before_s[index],
            calibration.after_s[index],
            *([] if alone is None else [alone[index]]),
        ]
        cells = [cell for value in simulated for cell in (seconds(value), ratio(value / measurement.latency_s))]
        missing = [NONE, NONE] if alone is None else []
        add_row(table, shortened(measurement.name, 48), seconds(measurement.latency_s), *cells, *missing)
    return table
