"""Frontend for StableHLO, the language that JAX lowers to: a Program from a module or a function."""

from memplace_env.program.frontends.stablehlo.stablehlo_loader import check_stablehlo, from_jax, load_stablehlo

__all__ = ["check_stablehlo", "from_jax", "load_stablehlo"]
