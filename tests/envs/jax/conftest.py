"""Steps and games in JAX play few programs once: XLA optimises what it compiles for them with `--thorough` alone."""

import os

import pytest

from tests.thorough import VARIABLE


@pytest.fixture(autouse=True, scope="package")
def _compiled_as_it_is():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_disable_most_optimizations", VARIABLE not in os.environ)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
