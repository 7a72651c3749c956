"""Synthetic programs: with a planted optimum, so that learning has ground truth; block matrix products; random ones."""

from memplace_env.placement.synthetic.matmul import matmul_program
from memplace_env.placement.synthetic.planting import Planted, planted
from memplace_env.placement.synthetic.random_programs import TOPOLOGIES, random_dag
from memplace_env.placement.synthetic.specs import from_spec, planted_optimum_ps

__all__ = ["TOPOLOGIES", "Planted", "from_spec", "matmul_program", "planted", "planted_optimum_ps", "random_dag"]
