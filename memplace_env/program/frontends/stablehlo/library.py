"""The libraries that read StableHLO: jax, and the MLIR bindings that it includes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from memplace_env._lib.errors import WorkloadError


def libraries() -> Any:
    """Return a namespace with `jax`, `ir`, `stablehlo` and `new_context`.

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
    """Return a context of MLIR with StableHLO that also accepts unknown dialects, which the tracer names in errors."""
    context = library.new_context()
    context.allow_unregistered_dialects = True
    return context
