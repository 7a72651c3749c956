"""Work of Programs of JAX functions, against XLA's count and against counts by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env import from_jax
from memplace_env.program.frontends.stablehlo.stablehlo_windows import valid_taps
from memplace_env.program.lowering.fusion import FUSIONS
from memplace_env.program.program import TensorKind
from scripts.export_training import program
from tests.program.stablehlo.networks import SMALL, counted_by_us, counted_by_xla, flops, shaped, work
from tests.thorough import examples


@pytest.mark.parametrize("name", SMALL)
def test_training_against_xla(name):
    step = SMALL[name]()
    made = program(step, name)
    assert counted_by_us(made) == pytest.approx(counted_by_xla(step), rel=0.01)
    leaves = len(jax.tree.leaves(step.arguments[0]))
    assert (made.alias_of >= 0).sum() == leaves, "each part of the state is updated in its place"
    assert made.dtype == "bfloat16"


@pytest.mark.parametrize("name", ["resnet", "gpt2", "dlrm"])
def test_inference_against_xla(name):
    step = SMALL[name]()
    parameters = jax.tree.map(lambda leaf: shaped(*leaf.shape, dtype=jnp.bfloat16), step.parameters)
    made = from_jax(step.loss, parameters, *step.batch)
    assert counted_by_us(made) == pytest.approx(flops(step.loss, parameters, *step.batch), rel=0.01)
    used = sum(leaf.size * 2 for leaf in jax.tree.leaves(parameters))
    assert made.bytes_of(TensorKind.WEIGHT) == used


@pytest.mark.parametrize("fusion", FUSIONS)
def test_fusion_keeps_products_and_saves_ops(fusion):
    step = SMALL["resnet"]()
    plain, fused = (
        from_jax(step.__call__, *step.arguments, donate_argnums=0, fusion=each) for each in ("none", fusion)
    )
    assert fused.macs.sum() == plain.macs.sum()
    assert fused.num_ops <= plain.num_ops
    assert fused.vector_ops.sum() == pytest.approx(plain.vector_ops.sum(), rel=0.02)


window = st.tuples(
    st.integers(1, 12), st.integers(1, 5), st.integers(1, 3), st.integers(-2, 4), st.integers(-2, 4),
    st.integers(1, 3), st.integers(1, 3),
)  # fmt: skip


@given(window)
def test_taps_that_hit_data(numbers):
    size, taps, stride, before, after, data_dilation, tap_dilation = numbers
    data = np.zeros((size - 1) * data_dilation + 1)
    data[::data_dilation] = 1
    data = np.pad(data, (max(before, 0), max(after, 0)))[max(-before, 0) :]
    data = data[: len(data) - max(-after, 0)]
    reach = (taps - 1) * tap_dilation + 1
    starts = range(0, len(data) - reach + 1, stride)
    hit = sum(data[start + tap * tap_dilation] for start in starts for tap in range(taps))
    assert valid_taps(size, taps, len(starts), stride, before, data_dilation, tap_dilation) == hit


@examples(15, deadline=None)
@given(
    st.integers(1, 3), st.sampled_from([8, 9, 14]), st.sampled_from([1, 2, 4]), st.integers(1, 3), st.integers(1, 2),
    st.sampled_from(["SAME", "VALID"]), st.integers(1, 2),
)  # fmt: skip
def test_convolutions_against_xla(batch, pixels, groups, kernel, stride, padding, dilation):
    channels, filters = 32 * groups, 8 * groups

    def convolved(w, x):
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            x, w, (stride,) * 2, padding, rhs_dilation=(dilation,) * 2, dimension_numbers=layout,
            feature_group_count=groups,
        )  # fmt: skip

    arguments = shaped(kernel, kernel, 32, filters), shaped(batch, pixels, pixels, channels)
    macs, _ = work(from_jax(convolved, *arguments))
    assert 2 * macs == pytest.approx(flops(convolved, *arguments), rel=0.02)


@st.composite
def functions(draw):
    """A function of a few matrices as instructions, with the MACs that they take."""
    sizes = st.sampled_from([3, 4, 5, 8])
    shapes = [(draw(sizes), draw(sizes)) for _ in range(3)]
    code, macs = [], 0
    for _ in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["dot", "tanh", "add", "sum", "turn", "slice", "join", "pad", "choose", "sort"]))
        a = draw(st.integers(0, len(shapes) - 1))
        rows, columns = shapes[a]
        fitting = [n for n, shape in enumerate(shapes) if shape[0] == columns]
        if kind == "dot":
            if not fitting:
                continue
            b = draw(st.sampled_from(fitting))
            macs += rows * columns * shapes[b][1]
            code.append((kind, a, b))
            shapes.append((rows, shapes[b][1]))
            continue
        grown = {"turn": (columns, rows), "slice": (max(1, rows - 1), columns), "join": (2 * rows, columns),
                 "pad": (rows + 2, columns), "sum": (1, columns)}  # fmt: skip
        code.append((kind, a, a))
        shapes.append(grown.get(kind, (rows, columns)))
    return shapes[:3], code, macs


APPLIED = {
    "dot": lambda a, b: a @ b,
    "tanh": lambda a, b: jnp.tanh(a),
    "add": lambda a, b: a + b,
    "sum": lambda a, b: a.sum(0, keepdims=True),
    "turn": lambda a, b: a.T,
    "slice": lambda a, b: a[: max(1, a.shape[0] - 1)],
    "join": lambda a, b: jnp.concatenate([a, b]),
    "pad": lambda a, b: jnp.pad(a, ((1, 1), (0, 0))),
    "choose": lambda a, b: jnp.where(a > 0, a, 1.0),
    "sort": lambda a, b: jnp.sort(a, 0),
}


@examples(40, deadline=None)
@given(functions(), st.sampled_from(FUSIONS))
def test_random_functions(made, fusion):
    shapes, code, macs = made

    def run(*matrices):
        values = list(matrices)
        for kind, a, b in code:
            values.append(APPLIED[kind](values[a], values[b]))
        return [jnp.exp(value) for value in values]

    loaded = from_jax(run, *(shaped(*shape) for shape in shapes), fusion=fusion)
    assert loaded.macs.sum() == macs
    assert loaded.bytes_of(TensorKind.OUTPUT) > 0


def test_dtypes_as_written():
    def mixed(w, x):
        return (x.astype(jnp.bfloat16) @ w).astype(jnp.float32)

    made = from_jax(mixed, shaped(64, 32, dtype=jnp.bfloat16), shaped(8, 64))
    sizes = dict(zip(made.tensor_name, made.tensor_bytes.tolist(), strict=True))
    assert (sizes["w"], sizes["x"]) == (64 * 32 * 2, 8 * 64 * 4)
    assert made.dtype == "bfloat16"
    narrow = from_jax(mixed, shaped(64, 32, dtype=jnp.bfloat16), shaped(8, 64), dtype="int8")
    assert narrow.dtype == "int8"
    assert narrow.bytes_of(TensorKind.WEIGHT) == 64 * 32
