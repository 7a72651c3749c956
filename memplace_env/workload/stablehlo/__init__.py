"""StableHLO, the language that JAX lowers to: from a module or a function to a Program."""

from memplace_env.workload.stablehlo.loader import check_stablehlo, from_jax, load_stablehlo

__all__ = ["check_stablehlo", "from_jax", "load_stablehlo"]
