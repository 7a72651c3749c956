"""The picture and the tables of `memplace explain`."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import VisualizationError
from memplace_env.placement.compiler import all_backing, place_levels
from memplace_env.placement.resolve_task import make_task
from memplace_env.report.explanation.differences import difference_of
from memplace_env.report.explanation.explanation import Explanation, explain_plan
from memplace_env.report.explanation.explanation_figure import PAGE, explanation_figure
from memplace_env.report.explanation.explanation_tables import explanation_tables
from memplace_env.report.explanation.routes import why_it_differs
from memplace_env.report.plans.evaluated_plan import all_backing_baseline, native_baseline
from memplace_env.report.style import level_colours, to_png, to_rgb
from memplace_env.report.tables import plain_text
from tests.strategies import accelerators, programs, tensor_levels
from tests.subjects import Subject, relu_task, subject_of
from tests.thorough import examples


@st.composite
def explanations(draw: st.DrawFn) -> Explanation:
    """Native against a random mapping, on machines with 2 to 4 levels."""
    program, chip = draw(programs()), draw(accelerators())
    task = make_task(program, chip)
    return explain_plan(*subject_of(task, place_levels(task, draw(tensor_levels(task))).plan))


def all_tables(explanation: Explanation, width: int = 120) -> str:
    return "".join(plain_text(table, width) for table in explanation_tables(explanation))


def test_tables(copies: Subject) -> None:
    text = all_tables(explain_plan(*copies))
    for part in ("Weights: from", "Activations: from", "176 KiB (33.3 %)", "copies after the last op", "layer[2]"):
        assert part in text
    assert "same time in both" in all_tables(explain_plan(copies.task, native_baseline(copies.task)))


def test_no_weights() -> None:
    task = relu_task()
    explanation = explain_plan(*subject_of(task, all_backing(task)))
    assert "Weights: from" not in all_tables(explanation)
    to_rgb(explanation_figure(explanation))


def test_reasons(copies: Subject) -> None:
    """Figures of uses served elsewhere and of an op's waits."""
    task, evaluated = copies
    why = why_it_differs(difference_of(task, all_backing_baseline(task), evaluated, 2))
    assert why.startswith("DRAM → SRAM: w2 87.9 KiB; waits ")
    assert why.endswith(" more")


@examples(40)
@given(explanations())
def test_every_difference_has_a_reason(explanation: Explanation) -> None:
    ops = explanation.task.program.num_ops
    assert all(why_it_differs(item) for item in (*explanation.gains(ops), *explanation.losses(ops)))


def test_picture(copies: Subject) -> None:
    """Same plan, same bytes; no warning about odd names."""
    explanation = explain_plan(*copies)
    figure = explanation_figure(explanation)
    image = to_rgb(figure)
    assert image.shape == (800, 1200, 3)
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20
    assert to_png(figure) == to_png(explanation_figure(explanation))


@examples(5)
@given(explanations())
def test_all_of_the_picture_is_in_it(explanation: Explanation) -> None:
    """No text is cut at the edge, whatever the number of levels."""
    figure = explanation_figure(explanation)
    to_rgb(figure)
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= PAGE.width
        assert box.y1 <= PAGE.height


def test_odd_names_of_levels(copies: Subject) -> None:
    chip = copies.task.accelerator
    levels = tuple(replace(level, name=f"$x$ {level.name} \u65e5 of the chip") for level in chip.levels)
    task = make_task(copies.task.program, replace(chip, levels=levels))
    to_rgb(explanation_figure(explain_plan(*subject_of(task, all_backing(task)))))


def test_colours_of_levels_differ() -> None:
    for levels in range(1, 7):
        assert len(set(level_colours(levels))) == levels
        assert level_colours(levels)[-1] == level_colours(1)[-1]


def test_without_matplotlib(copies: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = explain_plan(*copies)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(VisualizationError, match=r'pip install "memplace\[viz\]"'):
        explanation_figure(explanation)
