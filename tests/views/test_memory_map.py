"""The picture: its size, its bytes, and what happens without matplotlib."""

from __future__ import annotations

import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from memplace_env.accelerator import load_accelerator
from memplace_env.compiler import all_backing
from memplace_env.errors import MemPlaceError
from memplace_env.simulator import Report, simulate
from memplace_env.views.blocks import BlockKind, arrivals, block_kinds, bytes_in_blocks
from memplace_env.views.figure import drawable, save_png, to_png, to_rgb
from memplace_env.views.memory_map import memory_map
from memplace_env.views.two_maps import Named, two_maps
from memplace_env.workload.synthetic import planted
from tests.views.conftest import SRAM, Subject


def test_picture(copies: Subject, native_report: Report, tmp_path: Path) -> None:
    """Same plan, same bytes; the array and the file show the same; no warning about odd names."""
    from matplotlib.image import imread

    figure = memory_map(*copies, native_report)
    image = to_rgb(figure)
    assert image.shape == (800, 1200, 3)
    assert image.dtype == np.uint8
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 20
    path = save_png(figure, tmp_path / "map.png")
    assert path.read_bytes() == to_png(memory_map(*copies, native_report))
    shown = np.rint(imread(BytesIO(path.read_bytes()))[..., :3] * 255).astype(np.uint8)
    np.testing.assert_array_equal(shown, image)


def test_nothing_on_the_chip() -> None:
    program, chip = planted("chain", ops=4).program, load_accelerator("nnp-i")
    plan = all_backing(program, chip)
    labels = [text.get_text() for axes in memory_map(program, chip, plan, simulate(program, chip, plan)).axes
              for text in axes.texts]  # fmt: skip
    assert labels.count("nothing is placed here") == 2


def test_without_matplotlib(copies: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MemPlaceError, match=r'pip install "memplace\[viz\]"'):
        memory_map(*copies)


def test_kinds_and_bytes_of_blocks(copies: Subject) -> None:
    arrived = arrivals(copies.plan, copies.accelerator)
    assert arrived.tolist() == [-1, 4, 1, 2, -1]
    assert block_kinds(copies.program, copies.plan, arrived) == [
        BlockKind.ACTIVATION,
        BlockKind.COPIED_ACTIVATION,
        BlockKind.COPIED_WEIGHT,
        BlockKind.COPIED_WEIGHT,
        BlockKind.OUTPUT,
    ]
    used = bytes_in_blocks(copies.program, copies.plan, SRAM)
    assert used.tolist() == [70_000, 250_000, 250_000, 160_000, 70_000, 120_000, 50_000]


def test_drawable_replaces_what_the_font_lacks() -> None:
    assert drawable("größe\n\u65e5 → x") == "größe?? → x"


def test_two_plans(copies: Subject) -> None:
    """The lead at the end is the difference of the latencies; same plans, same bytes; odd names do no harm."""
    program, chip, plan, report = copies
    other = all_backing(program, chip)
    slow, fast = Named("all $backing$", other, simulate(program, chip, other)), Named("copies", plan, report)
    figure = two_maps(program, chip, slow, fast)
    assert to_rgb(figure).shape == (900, 1200, 3)
    lead = figure.axes[2].lines[0].get_ydata()
    assert lead[0] == 0
    unit = {"ahead by (s)": 1, "ahead by (ms)": 1e3, "ahead by (\u00b5s)": 1e6, "ahead by (ns)": 1e9}
    scale = unit[figure.axes[2].get_ylabel()]
    assert lead[-1] == pytest.approx((slow.report.latency_s - fast.report.latency_s) * scale)
    assert to_png(figure) == to_png(two_maps(program, chip, slow, fast))
    backwards = two_maps(program, chip, fast, slow).axes[2].lines[0].get_ydata()
    np.testing.assert_allclose(backwards, -np.array(lead))
