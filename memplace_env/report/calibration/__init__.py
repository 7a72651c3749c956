"""Calibration: a chip's few free constants fitted to measured latencies. Needs scipy."""

from memplace_env.report.calibration.calibration import Calibration, Measurement, calibrate
from memplace_env.report.calibration.chip_constants import Constant, constant_names
from memplace_env.report.calibration.least_squares import Fitted

__all__ = ["Calibration", "Constant", "Fitted", "Measurement", "calibrate", "constant_names"]
