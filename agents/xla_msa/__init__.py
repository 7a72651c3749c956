"""XLA's memory-space assignment, rebuilt: the default solver that mallocMuZero is compared with."""

from agents.xla_msa.agent import XlaMsa
from agents.xla_msa.assignment import assign, default_plan
from agents.xla_msa.autotune import XlaAutotune
from agents.xla_msa.options import PUBLIC_SETS, MsaOptions, PublicSet

__all__ = ["PUBLIC_SETS", "MsaOptions", "PublicSet", "XlaAutotune", "XlaMsa", "assign", "default_plan"]
