"""Damaged StableHLO modules as text: words, numbers and bytes changed."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from memplace_env.program.frontends.stablehlo import load_stablehlo, stablehlo_reader
from tests.fuzz.kinds.onnx_files import check_program
from tests.fuzz.mutations import INTEGERS, damaged, pick

NAME = "StableHLO files"
CASES = 4_000
_TOKEN = re.compile(r"\d+|%?[\w.]+|[<>(){}\[\]:=,x]")


def prepare(folder: Path) -> list[str]:
    """Return the modules that JAX makes of a small training step, of loops and of branches."""
    import jax
    import jax.numpy as jnp

    def step(weights: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            hidden = jax.nn.relu(jax.lax.conv(x, w["filters"], (1, 1), "SAME")).mean((2, 3))
            return jnp.square(jax.nn.softmax(hidden @ w["head"])).sum()

        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights))

    def loop(x: Any) -> Any:
        def body(n: Any, carry: Any) -> Any:
            return jnp.where(n % 2 == 0, jnp.sin(carry), carry @ carry)

        rows = jax.lax.scan(lambda c, r: (c + r, c * r), x[0], x)[1]
        return jax.lax.cond(x.sum() > 0, jnp.exp, jnp.tanh, jax.lax.fori_loop(0, 3, body, x)), jnp.argsort(rows)

    def slices(x: Any, n: Any) -> Any:
        y = jax.lax.dynamic_update_slice(x, x[:2] * 2, (n, 0))
        return jnp.concatenate([y, x[::2]]).at[jnp.array([1, 2])].add(1.0)[jnp.array([3, 0])].cumsum(axis=1)

    array = jax.ShapeDtypeStruct
    weights = {"filters": array((4, 3, 3, 3), jnp.float32), "head": array((4, 5), jnp.bfloat16)}
    lowered = (
        jax.jit(step, donate_argnums=0).lower(weights, array((2, 3, 8, 8), jnp.float32)),
        jax.jit(loop).lower(array((4, 4), jnp.float32)),
        jax.jit(slices).lower(array((6, 4), jnp.float32), array((), jnp.int32)),
    )
    return [each.as_text(debug_info=number == 0) for number, each in enumerate(lowered)]


def case(prepared: Any, rng: np.random.Generator, folder: Path) -> bool:
    """Load one damaged module, which is not parsed in a process of its own first: that takes a second."""
    text = pick(rng, prepared)
    data = damaged(text.encode(), rng) if rng.random() < 0.2 else _changed(text, rng).encode()
    stablehlo_reader.as_text = _decoded
    path = folder / "model.mlir"
    path.write_bytes(data)
    fusion, trips = pick(rng, ("none", "conv", "epilogue")), pick(rng, (None, None, 2))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*the data choose a branch")
        check_program(load_stablehlo(path, fusion=fusion, trips=trips))
    return True


def _decoded(data: bytes) -> str:
    return data.decode(errors="replace")


def _changed(text: str, rng: np.random.Generator) -> str:
    """Return the text with one to three tokens replaced by others, mostly of the same sort."""
    for _ in range(int(rng.integers(1, 4))):
        tokens = list(_TOKEN.finditer(text))
        old, other = pick(rng, tokens), pick(rng, tokens)[0]
        if old[0].isdigit() and rng.random() < 0.8:
            other = str(pick(rng, INTEGERS)) if rng.random() < 0.5 else str(rng.integers(0, 9))
        elif rng.random() < 0.5:
            other = pick(rng, [token[0] for token in tokens if token[0][:1] == old[0][:1]])
        text = text[: old.start()] + other + text[old.end() :]
    return text
