"""Fitting a chip's few free constants to measured latencies; not loaded by `analysis`, since it needs scipy."""

from memplace_env.analysis.calibration.calibrated import Calibration, Measurement, calibrate
from memplace_env.analysis.calibration.constants import Constant, constant_names
from memplace_env.analysis.calibration.fit import Fitted

__all__ = ["Calibration", "Constant", "Fitted", "Measurement", "calibrate", "constant_names"]
