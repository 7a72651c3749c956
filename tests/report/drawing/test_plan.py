"""Pictures of plans: their size, their bytes, and what happens without matplotlib."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from memplace_env._lib.errors import VisualizationError
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.synthetic import planted
from memplace_env.report.explanation.comparison_figure import two_maps
from memplace_env.report.explanation.routes import what_decides
from memplace_env.report.plans.evaluated_plan import all_backing_baseline
from memplace_env.report.plans.memory_map import memory_map
from memplace_env.report.style import drawable, save_png, to_png, to_rgb
from tests.subjects import Subject, all_in, relu_task


def test_picture(copies: Subject, tmp_path: Path) -> None:
    """Same plan, same bytes; the array and the file show the same; no warning about odd names."""
    from matplotlib.image import imread

    figure = memory_map(*copies)
    image = to_rgb(figure)
    assert image.shape == (800, 1200, 3)
    assert image.dtype == np.uint8
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20
    path = save_png(figure, tmp_path / "map.png")
    assert path.read_bytes() == to_png(memory_map(*copies))
    shown = np.rint(imread(BytesIO(path.read_bytes()))[..., :3] * 255).astype(np.uint8)
    np.testing.assert_array_equal(shown, image)


def test_nothing_on_the_chip() -> None:
    task = make_task(planted("chain", ops=4).program, load_accelerator("nnp-i"))
    axes = memory_map(task, all_backing_baseline(task)).axes
    labels = [text.get_text() for panel in axes for text in panel.texts]
    assert labels.count("nothing is placed here") == 2


def test_another_baseline(copies: Subject) -> None:
    """The header says what the plan is compared with."""
    told = [text.get_text() for text in memory_map(*copies, all_backing_baseline(copies.task)).texts]
    assert any("over all in backing memory" in text for text in told)


def test_without_matplotlib(copies: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(VisualizationError, match=r'pip install "memplace\[viz\]"'):
        memory_map(*copies)


def test_drawable_replaces_what_the_font_lacks() -> None:
    assert drawable("größe\n\u65e5 → x") == "größe?? → x"


def test_two_plans(copies: Subject) -> None:
    """The lead at the end is the difference of the latencies; same plans, same bytes; odd names do no harm."""
    task, fast = copies
    slow = all_backing_baseline(task)._replace(name="all $backing$")
    figure = two_maps(task, slow, fast)
    assert to_rgb(figure).shape == (948, 1200, 3)
    lead = figure.axes[2].lines[0].get_ydata()
    assert lead[0] == 0
    unit = {"ahead by (s)": 1, "ahead by (ms)": 1e3, "ahead by (\u00b5s)": 1e6, "ahead by (ns)": 1e9}
    scale = unit[figure.axes[2].get_ylabel()]
    assert lead[-1] == pytest.approx((slow.report.latency_s - fast.report.latency_s) * scale)
    assert to_png(figure) == to_png(two_maps(task, slow, fast))
    assert any(text.get_text().startswith("What decides: ") for text in figure.texts)
    backwards = two_maps(task, fast, slow).axes[2].lines[0].get_ydata()
    np.testing.assert_allclose(backwards, -np.array(lead))


def test_the_memories_that_decide_are_drawn() -> None:
    """LLC is drawn if all that matters goes from DRAM to LLC, although there is a faster memory."""
    task = relu_task()
    first, second = all_in(task, 2), all_in(task, 1)
    titles = [panel.texts[0].get_text() for panel in two_maps(task, first, second).axes[:-1]]
    assert titles == ["LLC, this plan", "LLC, this plan"]
    assert "DRAM → LLC saves" in what_decides(task, first, second)
    assert "LLC → DRAM costs" in what_decides(task, second, first)
