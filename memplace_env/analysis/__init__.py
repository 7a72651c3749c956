"""What a plan means: numbers and findings without pictures, tables or formatted text.

Games are read by `analysis.game_snapshot` and `analysis.game_actions`, which are not loaded here: they need the
environments.
"""

from memplace_env.analysis.blocks import BlockKind, arrivals, block_kinds, bytes_in_blocks
from memplace_env.analysis.differences import Difference, Move, biggest_differences, difference_of
from memplace_env.analysis.explanation import Explanation, Shift, TypeTimes, explain_plan
from memplace_env.analysis.hurts import Hurt, find_hurts
from memplace_env.analysis.inspection import Extreme, Inspection, inspect_task
from memplace_env.analysis.judged import Judged, all_backing_baseline, native_baseline
from memplace_env.analysis.levels import contiguity, decided_levels, tensor_levels
from memplace_env.analysis.routes import Route, deciding_levels, routes_between
from memplace_env.analysis.timeline import Service, Timeline, timeline_of

__all__ = [
    "BlockKind",
    "Difference",
    "Explanation",
    "Extreme",
    "Hurt",
    "Inspection",
    "Judged",
    "Move",
    "Route",
    "Service",
    "Shift",
    "Timeline",
    "TypeTimes",
    "all_backing_baseline",
    "arrivals",
    "biggest_differences",
    "block_kinds",
    "bytes_in_blocks",
    "contiguity",
    "decided_levels",
    "deciding_levels",
    "difference_of",
    "explain_plan",
    "find_hurts",
    "inspect_task",
    "native_baseline",
    "routes_between",
    "tensor_levels",
    "timeline_of",
]
