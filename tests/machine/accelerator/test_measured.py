"""The table `measured` in an accelerator's file: read exactly, part of the chip, and a clear error for each mistake."""

from __future__ import annotations

import pickle
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import AcceleratorError
from memplace_env.machine.accelerator import MeasuredTimes, load_accelerator
from memplace_env.machine.accelerator.description import Description
from memplace_env.machine.accelerator.schema import MAX_KEY
from tests.fuzz.documents import document_to_toml
from tests.machine.accelerator.documents import GOOD, NO_NUMBERS, Document, Read, changed
from tests.offenders import every

KEY = 'Conv "float32" 1x2x3x4 MAC 8+24>16 B'
TIMES: dict[str, Any] = {"copy_latency_ns": 1200.5, "op_ns": {KEY: 0.001, "Add.x": 10**15}}


def with_times(measured: Any) -> Document:
    """A chip with that table."""
    return changed(("measured", measured))


def test_times_are_read_exactly(read: Read) -> None:
    chip = read(with_times(TIMES))
    assert chip.measured == MeasuredTimes(1_200_500, {KEY: 1, "Add.x": 10**18})
    assert read(with_times(TIMES | {"source": {"op_ns": "Timed."}})) == chip
    assert read(with_times({"copy_latency_ns": 0, "op_ns": {}})).measured == MeasuredTimes(0, {})


@given(picoseconds=st.integers(1, 10**18))
def test_every_picosecond_can_be_said(file: Path, read: Read, picoseconds: int) -> None:
    read(with_times(TIMES))
    file.write_text(file.read_text().replace("0.001", str(Decimal(picoseconds) / 1000)))
    measured = load_accelerator(file).measured
    assert measured
    assert measured.op_ps[KEY] == picoseconds


def test_they_are_part_of_the_chip(read: Read, file: Path) -> None:
    file.write_text(document_to_toml(GOOD))
    plain = load_accelerator(file)
    others = [
        read(with_times(TIMES)),
        read(with_times(TIMES | {"copy_latency_ns": 1200.501})),
        read(with_times(TIMES | {"op_ns": {}})),
        read(with_times(TIMES | {"op_ns": {KEY: 0.002, "Add.x": 10**15}})),
        read(with_times(TIMES | {"op_ns": {KEY + "x": 0.001, "Add.x": 10**15}})),
    ]
    assert len({chip.sha256 for chip in [plain, *others]}) == 6
    assert plain.measured is None
    for chip in others:
        assert hash(chip) == hash(replace(chip, name="x")) == hash(pickle.loads(pickle.dumps(chip)))
        assert pickle.loads(pickle.dumps(chip)) == chip
        assert replace(chip, measured=None).sha256 == plain.sha256
        assert replace(chip, weights="resident").streamed().measured == chip.measured


def test_the_order_of_ops_does_not_count(read: Read) -> None:
    backwards = dict(reversed(TIMES["op_ns"].items()))
    assert read(with_times(TIMES | {"op_ns": backwards})).sha256 == read(with_times(TIMES)).sha256


def test_rewriting_a_chip_leaves_them(read: Read, file: Path) -> None:
    chip = read(with_times(TIMES))
    text = Description.read(file).rewritten("new", {("compute", "op_overhead_ns"): Decimal(7)}, "Fitted.")
    file.write_text(text)
    assert load_accelerator(file) == replace(chip, name="new", op_overhead_ps=7000)


def test_thousands_of_long_keys_fit(file: Path) -> None:
    lines = [f'"{number:0{MAX_KEY}}" = 123456789.123\n' for number in range(2500)]
    table = "[measured]\ncopy_latency_ns = 1\n[measured.op_ns]\n"
    file.write_text(document_to_toml(GOOD) + table + "".join(lines))
    measured = load_accelerator(file).measured
    assert measured
    assert len(measured.op_ps) == 2500


OPS = "measured.op_ns"


@every(
    ("measured", "message"),
    [
        (5, "measured must be a table, not a number"),
        ({}, "measured.copy_latency_ns is missing"),
        ({"copy_latency_ns": 1}, "measured.op_ns is missing"),
        (TIMES | {"op_n": 1}, "measured.op_n is not a field"),
        (TIMES | {"copy_latency_ns": -1}, "measured.copy_latency_ns must be 0 or between"),
        (TIMES | {"op_ns": [1]}, f"{OPS} must be a table, not an array"),
        (TIMES | {"op_ns": {"": 1}}, f"{OPS}: the key '' must be one line of text"),
        (TIMES | {"op_ns": {"a\nb": 1}}, rf"{OPS}: the key 'a\nb' must be one line of text"),
        (TIMES | {"op_ns": {"k" * (MAX_KEY + 1): 1}}, "has 151 characters: shorten it to 150"),
        *((TIMES | {"op_ns": {"Add x": value}}, f"{OPS}.'Add x' must be ") for value in NO_NUMBERS),
        *((TIMES | {"op_ns": {"Add x": time}}, f"{OPS}.'Add x' must be ") for time in (0, -1, 0.0005, 1.0005, 10**16)),
    ],
)
def test_mistake_is_named(read: Read, file: Path, measured: Any, message: str) -> None:
    with pytest.raises(AcceleratorError) as error:
        read(with_times(measured))
    assert str(error.value).startswith(f"{file}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
