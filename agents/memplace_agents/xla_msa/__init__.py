"""XLA's memory-space assignment, rebuilt: the default solver that mallocMuZero is compared with."""

from memplace_agents.xla_msa.assignment import assign, default_plan
from memplace_agents.xla_msa.msa_options import LLAMA2_70B, PUBLIC_SETS, MsaOptions, PublicSet

__all__ = ["LLAMA2_70B", "PUBLIC_SETS", "MsaOptions", "PublicSet", "assign", "default_plan"]
