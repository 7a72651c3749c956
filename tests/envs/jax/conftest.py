"""Steps and games in JAX play few programs once: XLA does not optimise what it compiles for them."""

import pytest


@pytest.fixture(autouse=True, scope="package")
def _compiled_as_it_is():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
