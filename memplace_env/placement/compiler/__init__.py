"""The compiler: turns levels into a plan with addresses, and has heuristics of its own."""

from memplace_env.placement.compiler.compile import Compiled, place_levels
from memplace_env.placement.compiler.heuristics import (
    HEURISTICS,
    all_backing,
    all_backing_report,
    at_home,
    native_levels,
    native_plan,
    native_report,
)

__all__ = [
    "HEURISTICS",
    "Compiled",
    "all_backing",
    "all_backing_report",
    "at_home",
    "native_levels",
    "native_plan",
    "native_report",
    "place_levels",
]
