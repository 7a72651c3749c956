"""The compiler: turns a mapping into a plan with addresses, and has heuristics of its own."""

from memplace_env.compiler.compile import Compiled, place_mapping
from memplace_env.compiler.heuristics import (
    HEURISTICS,
    all_backing,
    all_backing_report,
    native_mapping,
    native_plan,
    native_report,
)

__all__ = [
    "HEURISTICS",
    "Compiled",
    "all_backing",
    "all_backing_report",
    "native_mapping",
    "native_plan",
    "native_report",
    "place_mapping",
]
