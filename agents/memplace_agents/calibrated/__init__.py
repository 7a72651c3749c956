"""Calibrated: cost arrays fitted to measurements of a black box, and solved."""

from memplace_agents.calibrated.calibrated_agent import Calibrated

__all__ = ["Calibrated"]
