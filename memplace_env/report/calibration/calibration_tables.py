"""Tables of a `Calibration`."""

from __future__ import annotations

from rich.table import Table

from memplace_env.report.calibration import Calibration, Fitted
from memplace_env.report.quantities import percent, ratio, seconds, shortened
from memplace_env.report.tables import NONE, add_row, new_table


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
