"""The libraries that know StableHLO: jax, and the MLIR bindings that come with it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from memplace_env.errors import WorkloadError


def libraries() -> Any:
    """A namespace with `jax`, `ir` and `stablehlo`.

    Raises:
        WorkloadError: jax is not installed, or too old.
    """
    try:
        import jax
        from jax.extend.mlir import ir
        from jax.extend.mlir.dialects import stablehlo
        from jax.interpreters import mlir
    except ImportError as error:
        needed = "Reading StableHLO needs the package jax, which is not installed"
        raise WorkloadError(f'{needed}; run: pip install "memplace[jax]".') from error
    return SimpleNamespace(jax=jax, ir=ir, stablehlo=stablehlo, new_context=mlir.make_ir_context)


def new_context(library: Any) -> Any:
    """A context of MLIR that knows StableHLO and lets unknown dialects pass, which the tracer then names."""
    context = library.new_context()
    context.allow_unregistered_dialects = True
    return context
