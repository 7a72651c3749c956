"""Plans in ExecuTorch: a memory planner for its `MemoryPlanningPass`, and its graphs as Programs."""

from memplace_env.backends.executorch.graph_program import from_executorch
from memplace_env.backends.executorch.memory_planner import ArenaSizes, MemPlacePlanner, target_memory_map

__all__ = ["ArenaSizes", "MemPlacePlanner", "from_executorch", "target_memory_map"]
