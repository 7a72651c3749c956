"""Donated arguments that give their place to an output, and the traffic of an update of a part of one."""

import jax
import jax.numpy as jnp
import pytest

from memplace_env import from_jax
from memplace_env.program.program import Program, TensorKind
from tests.offenders import every
from tests.program.stablehlo.networks import shaped

SQUARE = shaped(64, 64)
CACHE, UPDATE = shaped(1024, 64), shaped(4, 64)


def donated(function, *arguments, **options) -> Program:
    return from_jax(function, *arguments, donate_argnums=0, **options)


def aliases(program: Program) -> int:
    return int((program.alias_of >= 0).sum())


@every(
    "function",
    [
        lambda p: p @ p,
        lambda p: p[::-1] * p,
        lambda p: p.T + 1,
        lambda p: (p + 1)[::-1],
        lambda p: (p + 1).T * p,
        lambda p: p - (p @ p),
        lambda p: p + jnp.roll(p, 1),
        lambda p: p + p[0],
        lambda p: p[jnp.argsort(p[:, 0])],
    ],
)
def test_no_place_for_what_reads_elsewhere(function):
    """Elements that are still to be read would be overwritten, so the compiler copies."""
    assert aliases(donated(function, SQUARE)) == 0


@every("fusion", ["none", "epilogue"])
@every(
    "function",
    [
        lambda p: jnp.tanh(p + 1) * p,
        lambda p: p - p.sum(),
        lambda p: (p.reshape(-1) + 1).reshape(64, 64),
        lambda p: (p.astype(jnp.float32) * 2).astype(jnp.bfloat16),
    ],
)
def test_element_wise_updates_are_in_place(function, fusion):
    assert aliases(donated(function, shaped(64, 64, dtype=jnp.bfloat16), fusion=fusion)) == 1


def moved(program: Program) -> tuple[int, int]:
    """Bytes read and written of the donated argument and of the output in its place."""
    (output,) = (program.alias_of >= 0).nonzero()[0]
    uses = [program.use_bytes[program.use_tensor == t] for t in (program.alias_of[output], output)]
    return int(uses[0].sum()), int(uses[1].sum())


def test_a_slice_is_written_in_place():
    program = donated(
        lambda c, u, at: jax.lax.dynamic_update_slice(c, u, (at, 0)), CACHE, UPDATE, shaped(dtype=jnp.int32)
    )
    assert moved(program) == (4, 4 * 4 * 64)


def test_rows_are_scattered_in_place():
    rows = shaped(4, dtype=jnp.int32)
    assert moved(donated(lambda c, at, u: c.at[at].set(u), CACHE, rows, UPDATE)) == (4, 4 * 4 * 64)
    assert moved(donated(lambda c, at, u: c.at[at].add(u), CACHE, rows, UPDATE)) == (4 * 4 * 64, 4 * 4 * 64)


def test_a_slice_of_what_is_read_later_is_a_copy():
    def update(cache, u, at):
        new = jax.lax.dynamic_update_slice(cache, u, (at, 0))
        return new, (new @ new.T) @ cache

    program = donated(update, CACHE, UPDATE, shaped(dtype=jnp.int32))
    assert aliases(program) == 0
    cache = program.tensor_name.index("cache")
    assert (program.use_bytes[program.use_tensor == cache] == program.tensor_bytes[cache]).all()


@pytest.mark.parametrize("fusion", ["none", "epilogue"])
def test_results_of_the_same_data_have_buffers_of_their_own(fusion):
    """Also those that differ in shape only; one of them takes the place of a donated argument."""

    def several(x):
        y = jnp.tanh(x @ x)
        return y, y, y.reshape(-1), y.T

    program = from_jax(several, shaped(64, 64), donate_argnums=0, fusion=fusion)
    assert (program.tensor_kind == TensorKind.OUTPUT).sum() == 4
    assert program.op_type.count("Identity") == 3
