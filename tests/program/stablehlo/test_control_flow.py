"""Loops, branches and calls."""

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env import from_jax
from memplace_env._lib.errors import WorkloadError
from memplace_env.program.program import TensorKind
from tests.program.stablehlo.networks import shaped, work

STEPS = 7


def cell(w, state, x):
    state = jnp.tanh(x @ w["in"] + state @ w["state"] + w["b"])
    return state, state


def unrolled(w, start, xs):
    states = []
    for step in range(STEPS):
        start, out = cell(w, start, xs[step])
        states.append(out)
    return jnp.stack(states)


def scanned(w, start, xs):
    return jax.lax.scan(lambda state, x: cell(w, state, x), start, xs)[1]


def training(function):
    return lambda w, start, xs: jax.grad(lambda w: jnp.square(function(w, start, xs)).sum())(w)


WEIGHTS = {"in": shaped(64, 128), "state": shaped(128, 128), "b": shaped(128)}
ARGUMENTS = WEIGHTS, shaped(16, 128), shaped(STEPS, 16, 64)


@pytest.mark.parametrize("derived", [lambda function: function, training], ids=["forward", "training"])
def test_a_loop_equals_its_unrolled_twin(derived):
    loop, twin = (from_jax(derived(function), *ARGUMENTS, weights=0) for function in (scanned, unrolled))
    assert loop.macs.sum() == twin.macs.sum()
    parameters = sum(leaf.size for leaf in WEIGHTS.values())
    more = loop.vector_ops.sum() - twin.vector_ops.sum()
    assert 0 <= more <= 2 * parameters, "a loop's sums of gradients begin with zeros"
    assert loop.op_type.count("MatMul") == twin.op_type.count("MatMul")
    assert loop.bytes_of(TensorKind.WEIGHT) == twin.bytes_of(TensorKind.WEIGHT)
    assert loop.live_bytes.max() == pytest.approx(twin.live_bytes.max(), rel=0.1)


@pytest.mark.parametrize("reverse", [False, True])
def test_slices_go_round_loops_without_copies(reverse):
    """Results that one loop writes and another reads slice by slice are never one tensor."""

    def twice(w, x):
        _, ys = jax.lax.scan(lambda _, x: (0, x @ w), 0, x)
        return jax.lax.scan(lambda total, y: (total + y @ w, 0), jnp.zeros((4, 32)), ys, reverse=reverse)[0]

    result = from_jax(twice, shaped(32, 32), shaped(5, 4, 32))
    assert "Concat" not in result.op_type
    assert result.op_type.count("MatMul") == 10
    assert max(result.tensor_bytes[result.tensor_kind == TensorKind.ACTIVATION]) == 4 * 32 * 4


def test_counted_loops():
    def powers(w, x):
        return jax.lax.fori_loop(2, 6, lambda _, x: x @ w, x)

    assert work(from_jax(powers, shaped(32, 32), shaped(4, 32)))[0] == 4 * 4 * 32 * 32


def test_loops_that_data_ends():
    def until(w, x):
        return jax.lax.while_loop(lambda x: x.sum() < 9, lambda x: x @ w, x)

    arguments = shaped(32, 32), shaped(4, 32)
    with pytest.raises(WorkloadError, match="loop over 2 values runs; pass its number of rounds as trips="):
        from_jax(until, *arguments)
    assert work(from_jax(until, *arguments, trips=3))[0] == 3 * 4 * 32 * 32
    with pytest.raises(WorkloadError, match="trips is -1"):
        from_jax(until, *arguments, trips=-1)


def test_endless_loops_are_refused(monkeypatch):
    monkeypatch.setattr("memplace_env.program.frontends.stablehlo.tracer.MAX_STEPS", 1000)
    with pytest.raises(WorkloadError, match="over 1000 steps when its loops are unrolled"):
        from_jax(lambda w, x: jax.lax.fori_loop(0, 10**6, lambda _, x: x @ w, x), shaped(8, 8), shaped(8, 8))


def test_the_branch_with_most_work():
    def either(w, x, flag):
        return jax.lax.cond(flag, lambda x: x + 1, lambda x: (x @ w) @ w, x)

    with pytest.warns(
        UserWarning,
        match=r"either: Where the data choose a branch, the one with most work is taken, once\. .* others: condition 1 "
        r"has branch 0 \(8,192 MACs, peak of 1,024 bytes\), branch 1 \(0 MACs, peak of 512 bytes\)",
    ):
        result = from_jax(either, shaped(32, 32), shaped(4, 32), shaped(dtype=jnp.bool_))
    assert work(result)[0] == 2 * 4 * 32 * 32
    program = from_jax(
        lambda w, x: jax.lax.switch(
            1,
            [lambda: x @ w @ w, lambda: x @ w],
        ),
        shaped(32, 32),
        shaped(4, 32),
    )
    assert work(program)[0] == 4 * 32 * 32


@given(
    captured=st.lists(st.sampled_from(["h", "g", None]), min_size=2, max_size=2),
    behind=st.booleans(),
    trips=st.sampled_from([None, 0, 2]),
    fusion=st.sampled_from(["none", "conv", "epilogue"]),
)
@settings(max_examples=12, deadline=None)
@pytest.mark.filterwarnings("ignore:.*the data choose a branch")
def test_top_level_work_stays_whatever_is_decided(captured, behind, trips, fusion):
    """Work for the condition, for what a branch or a loop captures, and with the result."""

    def function(w, x):
        values = {"c": jnp.tanh(x @ w), "h": jnp.tanh(x @ w.T), "g": jnp.sin(x @ w), None: jnp.zeros((8, 8))}
        first, second = (values[name] for name in captured)
        if trips is None:
            made = jax.lax.cond(values["c"].max() > 0, lambda: first + 1, lambda: second)
        else:
            goes_on = lambda state: (state.sum() + values["c"].max()) < 9  # noqa: E731
            made = jax.lax.while_loop(goes_on, lambda state: state + first, jnp.zeros((8, 8)))
        return made @ w if behind else jnp.abs(made)

    result = from_jax(function, shaped(8, 8), shaped(8, 8), fusion=fusion, trips=trips)
    due = {"c", *(captured if trips is None else captured[:1])} - {None}
    assert work(result)[0] == (len(due) + behind) * 8**3


def test_checkpoints_compute_again():
    def loss(w, x):
        return jnp.square(jax.checkpoint(lambda x: jnp.tanh(x @ w) @ w)(x)).sum()

    macs = [work(from_jax(jax.grad(f), shaped(32, 32), shaped(4, 32)))[0]
            for f in (loss, lambda w, x: jnp.square(jnp.tanh(x @ w) @ w).sum())]  # fmt: skip
    assert macs[0] > macs[1]
