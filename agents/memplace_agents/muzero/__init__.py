"""MuZero for mallocGame."""

from memplace_agents.muzero.muzero_agent import MuZero
from memplace_agents.muzero.muzero_config import MuZeroConfig

__all__ = ["MuZero", "MuZeroConfig"]
