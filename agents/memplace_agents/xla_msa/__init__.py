"""XLA's memory-space assignment, rebuilt: the default solver that mallocMuZero is compared with."""

from memplace_agents.xla_msa.assignment import assign, default_plan
from memplace_agents.xla_msa.autotune import XlaAutotune
from memplace_agents.xla_msa.msa_options import PUBLIC_SETS, MsaOptions, PublicSet
from memplace_agents.xla_msa.xla_msa_agent import XlaMsa

__all__ = ["PUBLIC_SETS", "MsaOptions", "PublicSet", "XlaAutotune", "XlaMsa", "assign", "default_plan"]
