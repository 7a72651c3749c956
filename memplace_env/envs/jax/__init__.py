"""Steps and games as pure functions for JAX, for `jit`, `vmap` and `scan`; needs the extra `jax`.

`jax_steps` and `jax_game` have `init` and `step`; `jax_arrays` pads programs to one size and goes back to plans.
"""

from memplace_env._lib.lazy import required

required("jax", "Environments in JAX need", "the package jax", "jax", ModuleNotFoundError)
