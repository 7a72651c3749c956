"""MuZero for mallocGame."""

from agents.muzero.agent import MuZero
from agents.muzero.config import MuZeroConfig

__all__ = ["MuZero", "MuZeroConfig"]
