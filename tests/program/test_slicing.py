"""Slices: they are the whole tensors, cost exact shares of the wholes' costs, and change nothing while they are off."""

import copy
import math
import pickle
import tracemalloc
from dataclasses import fields, replace
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import WorkloadError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.machine.costs import CostModel, Costs, Roofline, Tiled, costs_of
from memplace_env.program.builder import ProgramBuilder
from memplace_env.program.model_file import LIMITS
from memplace_env.program.program import Program, TensorKind
from memplace_env.program.slicing import cut_before, sliced
from memplace_env.testing import RandomCosts
from tests.program.test_alias import NEW, W, update
from tests.program.test_program_file import assert_equal
from tests.strategies import programs_with_rows
from tests.thorough import examples

CHIPS = ("nnp-i", "ethos-u65", "tpu-v4i")
MODELS = st.sampled_from([Roofline(), Tiled(), RandomCosts(3)])


class Cut(NamedTuple):
    """A program and the arguments that it is cut with."""

    whole: Program
    limit: int
    multiple: int

    @property
    def slices(self) -> Program:
        return sliced(self.whole, self.limit, self.multiple)


CUTS = st.builds(Cut, programs_with_rows(), st.integers(1, 3000), st.sampled_from([1, 1, 16, 64]))


def sums(numbers: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """Sums of the rows that stand for the same whole."""
    total = np.zeros((count, *numbers.shape[1:]), dtype=np.int64)
    np.add.at(total, rows, numbers)
    return total


def of(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """The whole tensor of each tensor, and the whole use of each use."""
    if program.slices is None:
        return np.arange(program.num_tensors), np.arange(program.num_uses)
    return program.slices.slice_of, program.slices.use_of


@given(CUTS)
def test_slices_make_up_the_whole(cut: Cut) -> None:
    whole, program = cut.whole, cut.slices
    tensor, use = of(program)
    assert (sums(program.tensor_bytes, tensor, whole.num_tensors) == whole.tensor_bytes).all()
    assert (np.diff(tensor) >= 0).all()
    assert (tensor[program.use_tensor] == whole.use_tensor[use]).all()
    assert (program.use_op == whole.use_op[use]).all()
    for name in ("tensor_kind", "producer"):
        assert (getattr(program, name) == getattr(whole, name)[tensor]).all()
    assert (program.live_start == whole.live_start[tensor]).all()
    assert (program.live_end == whole.live_end[tensor]).all()
    assert (program.live_bytes == whole.live_bytes).all()
    assert program.footprint == whole.footprint
    assert (program.edges == whole.edges).all()
    pieces = np.bincount(tensor, minlength=whole.num_tensors)
    assert (pieces[~whole.is_placeable] == 1).all()
    assert (pieces[whole.tensor_bytes <= cut.limit] == 1).all()
    assert (np.bincount(use, minlength=whole.num_uses) == pieces[whole.use_tensor]).all()
    assert program.slices is not None or program is whole


@given(CUTS)
def test_sizes(cut: Cut) -> None:
    """All slices but a tensor's last are multiples, and none is too large unless one step of rows already is."""
    whole, program = cut.whole, cut.slices
    tensor, _ = of(program)
    last = np.append(np.diff(tensor) > 0, True)
    cut_up = np.bincount(tensor)[tensor] > 1
    assert (program.tensor_bytes[~last] % cut.multiple == 0).all()
    for number in np.flatnonzero(whole.is_placeable):
        size, rows = int(whole.tensor_bytes[number]), int(whole.tensor_rows[number, 1])
        step = next(
            (count for count in range(1, rows + 1) if count * size % (rows * cut.multiple) == 0), rows
        ) if rows <= 200 else rows * cut.multiple // math.gcd(size, rows * cut.multiple)  # fmt: skip
        sizes = program.tensor_bytes[tensor == number]
        assert sizes.max() <= max(cut.limit, min(size, -(-step * size // rows)))
        if len(sizes) > 2:
            assert sizes[:-1].max() - sizes[:-1].min() <= step * size // rows, "equal but for one step of rows"
    if program.slices is not None:
        ranges = program.slices.rows
        first = np.roll(last, 1)
        assert (ranges[first, 0] == 0).all()
        assert (ranges[last, 1] == whole.tensor_rows[:, 1]).all()
        assert (ranges[~first, 0] == ranges[~last, 1]).all()
        assert (ranges[:, 0] < ranges[:, 1]).all()
        exact = (
            program.tensor_bytes * whole.tensor_rows[tensor, 1] == np.diff(ranges).ravel() * whole.tensor_bytes[tensor]
        )
        assert exact[cut_up].all()


def shares_of(model: CostModel, cut: Cut, chip: str) -> tuple[Costs, Costs, Program]:
    accelerator, program = load_accelerator(chip), cut.slices
    return costs_of(model, cut.whole, accelerator), costs_of(model, program, accelerator), program


@given(CUTS, MODELS, st.sampled_from(CHIPS))
def test_costs_are_shares(cut: Cut, model: CostModel, chip: str) -> None:
    """Without halo sums are exact; with it each cut adds the cost of its rows, where there are as many behind it."""
    whole, shares, program = shares_of(model, cut, chip)
    tensor, use = of(program)
    for name in ("compute_ps", "overhead_ps", "latency_ps", "serial", "compute_pj", "reserved_bytes"):
        assert np.array_equal(getattr(whole, name), getattr(shares, name)), name
    for name in ("prefetch_ps", "writeback_ps", "copy_pj"):
        assert (sums(getattr(shares, name), tensor, cut.whole.num_tensors) == getattr(whole, name)).all(), name
    halo = cut.whole.use_halo[use] > 0
    for name in ("use_ps", "use_pj"):
        totals = sums(getattr(shares, name), use, cut.whole.num_uses)
        least = sums(np.minimum(getattr(shares, name), name == "use_ps"), use, cut.whole.num_uses)
        with_halo = np.isin(np.arange(cut.whole.num_uses), use[halo])
        due = getattr(whole, name)
        assert (totals >= due).all()
        assert (totals <= due + least)[~with_halo].all(), "a use takes at least 1 ps"
        assert (totals == due)[~with_halo & (name == "use_pj")].all()
    if program.slices is None:
        return
    for number in np.flatnonzero(halo):
        begin, end = program.slices.use_rows[number].tolist()
        own = program.slices.rows[program.use_tensor[number]].tolist()
        rows = int(cut.whole.tensor_rows[cut.whole.use_tensor[use[number]], 1])
        assert (begin, end) == (own[0], min(rows, own[1] + int(cut.whole.use_halo[use[number]])))
        for level, cost in enumerate(whole.use_pj[use[number]].tolist()):
            assert shares.use_pj[number, level] == cost * end // rows - cost * begin // rows


def test_shares_by_hand() -> None:
    program = ProgramBuilder("by hand", "int8")
    x = program.tensor("x", 100, TensorKind.INPUT)
    a = program.tensor("a", 120, rows=(1, 6))
    y = program.tensor("y", 10, TensorKind.OUTPUT)
    program.op("First", [x], [a])
    program.op("Window", [a], [y], halo={a: 1})
    cut = sliced(program.build(), 50)
    assert cut.tensor_name == ("x", "a[1/3]", "a[2/3]", "a[3/3]", "y")
    assert cut.tensor_bytes.tolist() == [100, 40, 40, 40, 10]
    assert cut.slices is not None
    assert cut.slices.of_uses(np.full(4, 60)).tolist() == [60, 20, 20, 20, 30, 30, 20, 60]
    assert cut.slices.of_tensors(np.array([7, 8, 9])).tolist() == [7, 2, 3, 3, 9]
    assert cut.use_bytes.tolist() == [100, 40, 40, 40, 40, 40, 40, 10]


@given(CUTS, st.integers(1, 3000))
def test_slices_are_cut_again_from_the_whole(cut: Cut, limit: int) -> None:
    again = sliced(cut.slices, limit, cut.multiple)
    assert_same(again, sliced(cut.whole, limit, cut.multiple))
    assert again.whole is cut.whole
    assert cut.whole.whole is cut.whole


def assert_same(a: Program, b: Program) -> None:
    if a.slices is None or b.slices is None:
        assert_equal(a, b)
        return
    assert_equal(replace(a, slices=None), replace(b, slices=None))
    assert a.sha256 == b.sha256
    for field in fields(a.slices):
        if field.name != "whole":
            assert np.array_equal(getattr(a.slices, field.name), getattr(b.slices, field.name))
    assert_equal(a.whole, b.whole)


@examples(25)
@given(CUTS)
def test_copies(cut: Cut) -> None:
    program = cut.slices
    for other in (pickle.loads(pickle.dumps(program)), copy.copy(program), copy.deepcopy(program)):
        assert_same(program, other)
    graph = program.to_networkx()
    due = cut.whole.to_networkx()
    assert dict(graph.edges) == dict(due.edges)
    assert dict(graph.nodes) == dict(due.nodes)
    assert f"tensors={program.num_tensors}" in repr(program)


@given(CUTS)
def test_the_hash_tells_how_it_is_cut(cut: Cut) -> None:
    program = cut.slices
    plain = replace(
        cut.whole, tensor_rows=np.ones_like(cut.whole.tensor_rows), use_halo=np.zeros_like(cut.whole.use_halo)
    )
    assert cut.whole.sha256 == plain.sha256
    assert program.slices is None or program.sha256 != cut.whole.sha256
    assert program.slices is None or program.sha256 != replace(program, slices=None).sha256


@examples(25)
@given(CUTS)
def test_files(tmp_path_factory: pytest.TempPathFactory, cut: Cut) -> None:
    file = tmp_path_factory.mktemp("slices") / "rows.program"
    cut.whole.save(file)
    version = int(file.read_bytes()[len(b"memplace-program ") :][:1])
    assert version == (2 if (cut.whole.tensor_rows[:, 1] > 1).any() else 1)
    if version == 2:
        assert_equal(Program.load(file), cut.whole)
        assert_same(sliced(Program.load(file), cut.limit, cut.multiple), cut.slices)
    if cut.slices.slices is not None:
        with pytest.raises(WorkloadError, match="A sliced Program is not saved; save its `whole`"):
            cut.slices.save(file)


def test_what_an_output_takes_the_place_of_stays_whole() -> None:
    program = update()
    rows = np.stack([np.ones(5, dtype=np.int64), program.tensor_bytes], 1)
    cut = sliced(replace(program, tensor_rows=rows), 4)
    assert [name.partition("[")[0] for name in cut.tensor_name] == ["x", "w", *["a"] * 5, "new", "y"]
    assert cut.alias_of.tolist() == [-1, *[-1] * 6, cut.tensor_name.index("w"), -1]
    assert cut.tensor_name[cut.alias_of.max()] == program.tensor_name[W]
    assert cut.alias_of.argmax() == cut.tensor_name.index(program.tensor_name[NEW])


def test_very_large_tensors() -> None:
    """Amounts of 2**61 and of rows just below the most there may be: shares stay in int64 and add up."""
    builder = ProgramBuilder("large", "int8")
    x = builder.tensor("x", 1, TensorKind.INPUT)
    a = builder.tensor("a", 2**60 + 3, rows=(1, 2**31 - 1))
    b = builder.tensor("b", 2**60, rows=(1, 2**30))
    y = builder.tensor("y", 1, TensorKind.OUTPUT)
    builder.op("First", [x], [a, b], bytes_read={a: 2**60})
    builder.op("Last", [a, b], [y], halo={b: 2**31 - 1})
    cut = sliced(program := builder.build(), 2**56, 64)
    tensor, use = of(cut)
    assert (sums(cut.tensor_bytes, tensor, 4) == program.tensor_bytes).all()
    assert cut.tensor_bytes[tensor == 2].max() == 2**56
    assert cut.slices is not None
    amounts = np.full(program.num_uses, 2**62 - 1)
    totals = sums(cut.slices.of_uses(amounts) // 2**8, use, program.num_uses)
    assert (totals[[0, 1, 3]] <= 2**54).all()
    assert cut.slices.of_uses(amounts).min() >= 0


@pytest.mark.parametrize(
    ("rows", "halo"), [(0, 0), (-1, 0), (2**31, 0), (2**62, 0), (4, -1), (4, 2**31), (4, 2**63 - 1)]
)
def test_rows_that_make_no_sense_are_refused(rows: int, halo: int) -> None:
    builder = ProgramBuilder("wrong", "int8")
    x, y = builder.tensor("x", 9, TensorKind.INPUT, rows=(1, rows)), builder.tensor("y", 1, TensorKind.OUTPUT)
    builder.op("Op", [x], [y], halo={x: halo})
    with pytest.raises(WorkloadError, match="row"):
        builder.build()


def wide(rows: int, readers: int = 1) -> Program:
    """A weight of so many rows of 64 bytes, and ops that read it."""
    builder = ProgramBuilder("wide", "int8")
    x, w = builder.tensor("x", 1, TensorKind.INPUT), builder.tensor("w", 64 * rows, TensorKind.WEIGHT, rows=(1, rows))
    for reader in range(readers):
        y = builder.tensor(f"y{reader}", 1, TensorKind.OUTPUT)
        builder.op("MatMul", [x, w], [y], gemm=(1, 1, 1, 1))
    return builder.build()


@examples(20)
@given(st.integers(21, 30), st.integers(1, 64), st.integers(4, 30))
def test_bombs_of_slices_are_refused_before_they_are_made(exponent: int, limit: int, readers: int) -> None:
    """However few bytes ask for them: a share, or rows of a mapping that many ops read."""
    rows = list(range(1, LIMITS["operands and results"] // readers + 1))
    for cut_up in (
        lambda: sliced(wide(2**exponent), limit),
        lambda: cut_before(wide(2**exponent, readers), {"1": rows}),
    ):
        tracemalloc.start()
        with pytest.raises(WorkloadError, match=r"These slices would make [\d,]+ operands and results of 'wide', and"):
            cut_up()
        assert tracemalloc.get_traced_memory()[1] < 2**25
        tracemalloc.stop()


def test_as_many_slices_as_a_model_may_have_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LIMITS, "operands and results", 102)  # type: ignore[misc]
    program = sliced(wide(100), 64)
    assert (program.num_uses, program.num_tensors) == (102, 102)
    with pytest.raises(WorkloadError, match="pass a larger share"):
        sliced(wide(101), 64)
