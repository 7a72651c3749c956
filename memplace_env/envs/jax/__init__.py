"""Steps and games as pure functions for JAX, for `jit`, `vmap` and `scan`; needs the extra `jax`.

`jax_steps` and `jax_game` have `init` and `step`; `jax_arrays` pads programs to one size and goes back to plans.
"""

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as error:
    needed = "Environments in JAX need the package jax, which is not installed"
    raise ModuleNotFoundError(f'{needed}; run: pip install "memplace[jax]".', name=error.name) from error
