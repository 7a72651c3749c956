"""What `memplace explain` says: levels, contiguity and times against loops that count one by one; the picture."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env.accelerator import Accelerator, load_accelerator
from memplace_env.compiler import all_backing, compile_mapping, native
from memplace_env.errors import MemPlaceError
from memplace_env.plan import MemoryPlan
from memplace_env.simulator import simulate
from memplace_env.views.analysis import Explanation, contiguity, decided_levels, explain_plan, tensor_levels
from memplace_env.views.explain_figure import HEIGHT, WIDTH, explain_figure, level_colours
from memplace_env.views.explain_tables import explain_tables
from memplace_env.views.figure import to_png, to_rgb
from memplace_env.views.tables import plain_text
from memplace_env.workload.builder import ProgramBuilder
from memplace_env.workload.program import Program, TensorKind
from tests.strategies import accelerators, mappings, programs
from tests.views.conftest import Subject

KINDS = {"weights": TensorKind.WEIGHT, "activations": TensorKind.ACTIVATION}


def explained(program: Program, chip: Accelerator, plan: MemoryPlan) -> Explanation:
    own = native(program, chip)
    return explain_plan(program, chip, own, simulate(program, chip, own), plan, simulate(program, chip, plan))


@st.composite
def explanations(draw: st.DrawFn) -> Explanation:
    """Native against a random mapping, on machines with 2 to 4 levels."""
    program, chip = draw(programs()), draw(accelerators())
    return explained(program, chip, compile_mapping(program, chip, draw(mappings(program, chip))).plan)


@st.composite
def served(draw: st.DrawFn) -> tuple[Program, MemoryPlan, int]:
    """A program, any levels for its uses, and how many levels there are; such a plan need not be able to run."""
    program, levels = draw(programs()), draw(st.integers(2, 4))
    use_level = draw(st.lists(st.integers(0, levels - 1), min_size=program.num_uses, max_size=program.num_uses))
    none = np.empty((0, 5), dtype=np.int64)
    return program, MemoryPlan.of(program, load_accelerator("nnp-i"), np.array(use_level, dtype=int), none), levels


@given(served())
def test_a_tensor_is_where_most_of_its_bytes_are_served(case: tuple[Program, MemoryPlan, int]) -> None:
    program, plan, levels = case
    found = tensor_levels(program, plan)
    assert found.shape == (program.num_tensors,)
    for tensor in range(program.num_tensors):
        moved = [0] * levels
        for use in np.flatnonzero(program.use_tensor == tensor):
            moved[plan.use_level[use]] += int(program.use_bytes[use])
        assert found[tensor] == moved.index(max(moved))


@given(served(), st.sampled_from(list(KINDS.values())))
def test_ops_decide_about_what_they_read_first_or_make(case: tuple[Program, MemoryPlan, int], kind: TensorKind) -> None:
    program, plan, levels = case
    level = tensor_levels(program, plan)
    seen: set[int] = set()
    expected = []
    for op in range(program.num_ops):
        new = {int(k) for k in (*program.operands(op), *program.results(op)) if program.tensor_kind[k] == kind} - seen
        seen |= new
        if new:
            placed = [sum(int(program.tensor_bytes[k]) for k in new if level[k] == at) for at in range(levels)]
            expected.append((op, placed.index(max(placed))))
    ops, levels_of_ops = decided_levels(program, kind, level)
    assert list(zip(ops.tolist(), levels_of_ops.tolist(), strict=True)) == expected


@given(st.lists(st.integers(0, 3), max_size=12))
def test_contiguity_counts_pairs(levels: list[int]) -> None:
    share = contiguity(np.array(levels, dtype=np.int64))
    pairs = list(pairwise(levels))
    if not pairs:
        assert share is None
        return
    assert share == pytest.approx(sum(one == other for one, other in pairs) / len(pairs))
    assert 0 <= share <= 1


@settings(max_examples=40)
@given(explanations())
def test_matrices_add_up(found: Explanation) -> None:
    """Rows add up to native's bytes by level, columns to the plan's, and all to the bytes of that kind."""
    program = found.program
    for shift in (found.weights, found.activations):
        assert shift.total_bytes == program.bytes_of(KINDS[shift.name])
        for axis, plan in ((1, found.native_plan), (0, found.plan)):
            level, of_kind = tensor_levels(program, plan), program.tensor_kind == KINDS[shift.name]
            by_level = [
                int(program.tensor_bytes[of_kind & (level == at)].sum()) for at in range(len(shift.moved_bytes))
            ]
            assert shift.moved_bytes.sum(axis=axis).tolist() == by_level
        assert 0 <= shift.changed_share <= 1


@settings(max_examples=40)
@given(explanations())
def test_times_add_up(found: Explanation) -> None:
    difference = found.native_report.latency_ps - found.report.latency_ps
    assert found.saved_ps.sum() + found.tail_saved_ps == difference
    assert sum(item.saved_ps for item in found.by_type()) + found.tail_saved_ps == difference
    assert sum(item.ops for item in found.by_type()) == found.program.num_ops
    gains, losses = (list_of(found.program.num_ops) for list_of in (found.gains, found.losses))
    assert sum(item.saved_ps for item in (*gains, *losses)) == found.saved_ps.sum()
    assert [item.saved_ps for item in gains] == sorted((item.saved_ps for item in gains), reverse=True)
    assert [item.saved_ps for item in losses] == sorted(item.saved_ps for item in losses)
    assert all(item.why for item in (*gains, *losses))
    json.dumps(found.to_json(8), allow_nan=False)


@settings(max_examples=40)
@given(programs(), accelerators())
def test_native_against_itself(program: Program, chip: Accelerator) -> None:
    found = explained(program, chip, native(program, chip))
    for shift in (found.weights, found.activations):
        assert np.count_nonzero(shift.moved_bytes - np.diag(np.diag(shift.moved_bytes))) == 0
        assert shift.changed_share == 0
        assert len(set(shift.contiguities)) == 1
    assert not found.saved_ps.any()
    assert found.speedup == 1
    assert "same time in both" in "".join(map(plain_text, explain_tables(found)))


def test_reasons(copies: Subject) -> None:
    """A plan with copies: what is served elsewhere, largest first, and what an op waits for."""
    program, chip, plan, report = copies
    own = all_backing(program, chip)
    found = explain_plan(program, chip, own, simulate(program, chip, own), plan, report)
    assert found.weights.moved_bytes.tolist() == [[0, 0], [180_000, 360_000]]
    assert found.activations.moved_bytes.tolist() == [[0, 0], [70_000, 280_000]]
    late = next(item for item in (*found.gains(6), *found.losses(6)) if item.op == 2)
    assert late.waits_ps == report.stall_ps[2]
    assert late.why.startswith("DRAM → SRAM: w2 87.9 KiB; waits ")
    assert late.why.endswith(" more")
    text = "".join(plain_text(table, width=120) for table in explain_tables(found))
    for part in ("Weights: from", "Activations: from", "176 KiB (33.3 %)", "copies after the last op", "layer[1]"):
        assert part in text


def test_picture(copies: Subject) -> None:
    """Same plan, same bytes; no warning about odd names."""
    found = explained(copies.program, copies.accelerator, copies.plan)
    figure = explain_figure(found)
    image = to_rgb(figure)
    assert image.shape == (HEIGHT, WIDTH, 3)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20
    assert to_png(figure) == to_png(explain_figure(found))


@settings(max_examples=5)
@given(explanations())
def test_all_of_the_picture_is_in_it(found: Explanation) -> None:
    """No text is cut at the edge, whatever the number of levels."""
    figure = explain_figure(found)
    to_rgb(figure)
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= WIDTH
        assert box.y1 <= HEIGHT


def test_odd_names_of_levels(copies: Subject) -> None:
    levels = tuple(replace(level, name=f"$x$ {level.name} \u65e5 of the chip") for level in copies.accelerator.levels)
    chip = replace(copies.accelerator, levels=levels)
    to_rgb(explain_figure(explained(copies.program, chip, all_backing(copies.program, chip))))


def test_no_weights() -> None:
    builder = ProgramBuilder("relu", "int8")
    x, h, y = (
        builder.tensor(name, 1000, kind)
        for name, kind in (("x", TensorKind.INPUT), ("h", TensorKind.ACTIVATION), ("y", TensorKind.OUTPUT))
    )
    builder.op("Relu", [x], [h], vector_ops=1000)
    builder.op("Relu", [h], [y], vector_ops=1000)
    program, chip = builder.build(), load_accelerator("nnp-i")
    found = explained(program, chip, all_backing(program, chip))
    assert found.weights.total_bytes == 0
    assert found.weights.contiguities == (None, None)
    assert "Weights: from" not in "".join(map(plain_text, explain_tables(found)))
    to_rgb(explain_figure(found))


def test_colours_of_levels_differ() -> None:
    for levels in range(1, 7):
        assert len(set(level_colours(levels))) == levels
        assert level_colours(levels)[-1] == level_colours(1)[-1]


def test_without_matplotlib(copies: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    found = explained(copies.program, copies.accelerator, copies.plan)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MemPlaceError, match=r'pip install "memplace\[viz\]"'):
        explain_figure(found)
