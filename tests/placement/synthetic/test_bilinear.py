"""Factorisations multiply matrices, and the programs made from them compute its products."""

from dataclasses import replace
from functools import reduce
from math import lcm

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import WorkloadError
from memplace_env.placement.synthetic import bilinear
from memplace_env.placement.synthetic.bilinear import FACTORISATIONS, kronecker, matmul_tensor, standard, strassen
from memplace_env.placement.synthetic.matmul import matmul_program, steps
from memplace_env.placement.workloads import resolve_workload
from memplace_env.program.program import FLOAT_BYTES, TensorKind
from tests.offenders import every
from tests.thorough import examples

SHAPES = st.tuples(*[st.integers(1, 3)] * 3)
SMALL_SHAPES = st.tuples(*[st.integers(1, 2)] * 3)
SEEDS = st.integers(0, 2**32 - 1)
RANKS = {"standard": 64, "strassen": 7, "strassen-squared": 49, "rank-47": 47}

NAMED = st.sampled_from(sorted(RANKS)).map(lambda name: FACTORISATIONS[name]())


@st.composite
def factorisations(draw):
    """One of those with a name, a standard one of any shape, or a product of two, with signs and order scrambled."""
    small = st.one_of(SMALL_SHAPES.map(lambda shape: standard(*shape)), st.just(strassen()))
    factorisation = draw(st.one_of(NAMED, SHAPES.map(lambda shape: standard(*shape)), small))
    if factorisation.rank <= 8 and draw(st.booleans()):
        factorisation = kronecker(factorisation, draw(small))
    rng = np.random.default_rng(draw(SEEDS))
    order = rng.permutation(factorisation.rank)
    u_sign, v_sign = rng.choice(np.array([-1, 1], dtype=np.int8), (2, factorisation.rank, 1))
    u, v, w = factorisation.u * u_sign, factorisation.v * v_sign, factorisation.w * u_sign * v_sign
    return replace(factorisation, u=u[order], v=v[order], w=w[order])


def multiply(factorisation, a, b):
    """C by the definition of a factorisation, entry by entry."""
    n, _, p = factorisation.shape
    u, v, w = (factor.astype(np.int64) for factor in (factorisation.u, factorisation.v, factorisation.w))
    return (((u @ a.ravel()) * (v @ b.ravel())) @ w).reshape(n, p)


@pytest.mark.parametrize("name", sorted(FACTORISATIONS))
def test_named_factorisations_are_exact(name):
    factorisation = FACTORISATIONS[name]()
    assert factorisation.check() is factorisation
    assert factorisation.rank == RANKS[name]
    assert (factorisation.modulus == 2) == (name == "rank-47")


def test_rank_47_does_not_hold_for_all_numbers():
    with pytest.raises(WorkloadError, match="does not multiply matrices"):
        replace(FACTORISATIONS["rank-47"](), modulus=None).check()


@given(SHAPES)
def test_tensor_counts_the_terms_of_the_definition(shape):
    n, m, p = shape
    tensor = matmul_tensor(n, m, p)
    assert tensor.sum() == n * m * p
    a, b = np.arange(n * m).reshape(n, m), np.arange(m * p).reshape(m, p)
    np.testing.assert_array_equal(np.einsum("a,b,abc", a.ravel(), b.ravel(), tensor).reshape(n, p), a @ b)


@examples(50, deadline=None)
@given(SMALL_SHAPES, SMALL_SHAPES, SEEDS)
def test_kronecker_is_recursion(outer_shape, inner_shape, seed):
    """The product of two factorisations multiplies matrices of the product shape, with as many products."""
    product = kronecker(standard(*outer_shape), standard(*inner_shape))
    n, m, p = (x * y for x, y in zip(outer_shape, inner_shape, strict=True))
    assert product.shape == (n, m, p)
    assert product.check().rank == n * m * p
    a, b = np.random.default_rng(seed).integers(-9, 10, (n, m)), np.random.default_rng(seed).integers(-9, 10, (m, p))
    np.testing.assert_array_equal(multiply(product, a, b), a @ b)
    assert kronecker(standard(*outer_shape), strassen()).check().rank == standard(*outer_shape).rank * 7


def test_kronecker_needs_one_arithmetic():
    with pytest.raises(WorkloadError, match="same arithmetic"):
        kronecker(strassen(), FACTORISATIONS["rank-47"]())
    squared = kronecker(FACTORISATIONS["rank-47"](), replace(strassen(), modulus=2))
    assert squared.check().rank == 47 * 7


@examples(60, deadline=None)
@given(factorisations(), st.sampled_from("uvw"), SEEDS)
def test_any_single_wrong_coefficient_is_refused(factorisation, which, seed):
    """Changing one coefficient changes the sum by a product of non-zero vectors, so none can go unseen."""
    rng = np.random.default_rng(seed)
    factor = getattr(factorisation, which).copy()
    at = tuple(rng.integers(0, factor.shape))
    factor[at] = 0 if factor[at] else 1
    with pytest.raises(WorkloadError, match=r"does not multiply matrices: A.*B.*C|only zeros for product"):
        replace(factorisation, **{which: factor}).check()


def test_messages_name_the_entry_and_the_factor():
    broken = strassen()
    w = broken.w.copy()
    w[0, 0] = 0
    with pytest.raises(WorkloadError, match=r"A\[0,0\] B\[0,0\] has coefficient 0 in C\[0,0\] instead of 1"):
        replace(broken, w=w).check()
    with pytest.raises(WorkloadError, match=r"u must be int8\[7, 4\]"):
        replace(broken, u=broken.u * np.int8(2)).check()
    with pytest.raises(WorkloadError, match=r"v must be int8\[7, 4\]"):
        replace(broken, v=broken.v[:, :3]).check()
    with pytest.raises(WorkloadError, match="modulus 3"):
        replace(broken, modulus=3).check()


@pytest.mark.parametrize("text", ["zz 1 1\n", "1 2\n1 2\n"])
def test_damaged_data_is_refused(tmp_path, monkeypatch, text):
    (tmp_path / "factorisations").mkdir()
    (tmp_path / "factorisations" / bilinear.RANK_47_FILE).write_text(text)
    monkeypatch.setattr(bilinear, "files", lambda package: tmp_path)
    with pytest.raises(WorkloadError, match=bilinear.RANK_47_FILE):
        bilinear.rank_47.__wrapped__()


@examples(60, deadline=None)
@given(factorisations(), st.integers(1, 3), SEEDS)
def test_steps_multiply_blocks(factorisation, block, seed):
    """Carried out on blocks of integers, the steps give A B, and the program has exactly these steps as its ops."""
    n, m, p = factorisation.shape
    size = block * lcm(n, m, p)
    rng = np.random.default_rng(seed)
    a, b = rng.integers(-9, 10, (2, size, size))
    values = {**_blocks("A", a, n, m), **_blocks("B", b, m, p)}
    program = matmul_program(factorisation, size)
    number = {name: tensor for tensor, name in enumerate(program.tensor_name)}
    taken = list(steps(factorisation))
    assert program.op_type == tuple(step.op_type for step in taken)
    for op, step in enumerate(taken):
        assert [number[term] for term in step.terms] == program.operands(op).tolist()
        assert [number[step.result]] == program.results(op).tolist()
        blocks = [values[term] * sign for term, sign in zip(step.terms, step.signs, strict=True)]
        assert step.result not in values
        values[step.result] = reduce(np.matmul if step.op_type == "MatMul" else np.add, blocks)
        assert values[step.result].size * FLOAT_BYTES[program.dtype] == program.tensor_bytes[number[step.result]]
    c = np.block([[values[f"C_{i}_{k}"] for k in range(p)] for i in range(n)])
    difference = c - a @ b
    assert not (difference if factorisation.modulus is None else difference % factorisation.modulus).any()
    assert set(number) == set(values), "every tensor is an input block or made by a step"


def _blocks(name, matrix, rows, columns):
    height, width = matrix.shape[0] // rows, matrix.shape[1] // columns
    return {
        f"{name}_{i}_{j}": matrix[i * height : (i + 1) * height, j * width : (j + 1) * width]
        for i in range(rows)
        for j in range(columns)
    }


@examples(60, deadline=None)
@given(factorisations(), st.integers(1, 50))
def test_work_and_bytes(factorisation, scale):
    n, m, p = factorisation.shape
    size = scale * lcm(n, m, p)
    program = matmul_program(factorisation, size)
    wide = FLOAT_BYTES[program.dtype]
    products = np.array([kind == "MatMul" for kind in program.op_type])
    block_macs = (size // n) * (size // m) * (size // p)
    assert products.sum() == factorisation.rank
    assert (program.macs == np.where(products, block_macs, 0)).all()
    assert program.bytes_of(TensorKind.INPUT) == 2 * size * size * wide
    assert program.bytes_of(TensorKind.OUTPUT) == size * size * wide
    assert program.bytes_of(TensorKind.WEIGHT) == 0
    operands = np.array([len(program.operands(op)) for op in range(program.num_ops)])
    elements = np.array([program.tensor_bytes[program.results(op)].sum() // wide for op in range(program.num_ops)])
    expected = np.where(products, int(factorisation.modulus == 2), np.maximum(operands - 1, 1)) * elements
    assert (program.vector_ops == expected).all()


@given(factorisations())
@examples(40, deadline=None)
def test_no_needless_ops(factorisation):
    """Equal combinations are computed once, single blocks never; products are read after they are made, by C only."""
    taken = list(steps(factorisation))
    sums = [(step.terms, step.signs) for step in taken if step.op_type == "Sum"]
    assert len(set(sums)) == len(sums)
    assert all(len(terms) > 1 or signs == (-1,) for terms, signs in sums)
    assert all(term.startswith(("product", "C")) or signs[0] == 1 for terms, signs in sums for term in terms[:1])


def test_an_output_comes_right_after_its_last_product():
    taken = list(steps(FACTORISATIONS["strassen-squared"]()))
    results = [step.result for step in taken]
    for at, step in enumerate(taken):
        if step.result.startswith("C"):
            between = taken[max(results.index(term) for term in step.terms) + 1 : at]
            assert all(other.result.startswith("C") for other in between)


@pytest.mark.parametrize("name", sorted(FACTORISATIONS))
def test_specs(name):
    program = resolve_workload(f"synthetic:matmul?factorisation={name}&size=512")
    assert program.dtype == ("int8" if name == "rank-47" else "bfloat16")
    assert program.sha256 == matmul_program(name, 512).sha256 == resolve_workload(program.name).sha256
    assert resolve_workload(f"synthetic:matmul?factorisation={name}&size=512&dtype=int8").dtype == "int8"


@every(
    ("settings", "sentence"),
    [
        ("factorisation=winograd", "winograd.*strassen-squared"),
        ("size=510", "4 x 4.*multiple.*510"),
        ("size=0", "multiple.*not 0"),
        ("size=big", "'big', which is not of type int"),
        ("size=4194304", "1048576"),
        ("dtype=float64", "bfloat16.*'float64'"),
        ("factorisation=rank-47&dtype=bfloat16", "int8.*modulo 2.*'bfloat16'"),
        ("ops=9", "'ops'.*factorisation, size, dtype"),
    ],
)
def test_bad_specs_are_refused(settings, sentence):
    with pytest.raises(WorkloadError, match=sentence):
        resolve_workload(f"synthetic:matmul?{settings}")
