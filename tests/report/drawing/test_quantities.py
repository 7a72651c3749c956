"""Numbers as people read them."""

from __future__ import annotations

import pytest

from memplace_env.report import quantities


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 s"), (1.5, "1.50 s"), (0.0012, "1.20 ms"), (0.9997e-3, "1.00 ms"), (42.9e-6, "42.9 µs"), (3e-12, "3 ps")],
)
def test_seconds(value: float, text: str) -> None:
    assert quantities.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1, "1 B"), (1023, "1023 B"), (4 * 2**20, "4 MiB"), (384 * 1024, "384 KiB"), (5 * 2**40, "5 TiB")],
)
def test_size(value: int, text: str) -> None:
    assert quantities.size(value) == text


def test_counts_rates_and_ratios() -> None:
    assert quantities.count(4_089_200_000, "MAC") == "4.09 GMAC"
    assert quantities.count(7) == "7"
    assert quantities.rate(67.2e9) == "67.2 GB/s"
    assert quantities.ratio(1.2345) == "1.234×"
    assert quantities.ratio(12.345) == "12.3×"
    assert quantities.percent(0.0312) == "3.1 %"
    assert quantities.percent(1) == "100 %"
    assert quantities.energy(0.0119) == "11.9 mJ"


def test_shortened_keeps_the_end() -> None:
    assert quantities.shortened("encoder.layer.0.weight", 9) == "…0.weight"
    assert quantities.shortened("short", 9) == "short"


def test_cut_keeps_the_beginning() -> None:
    assert quantities.cut("a long title", 6) == "a lon…"
    assert quantities.cut("short", 5) == "short"


def test_some_of() -> None:
    assert quantities.some_of(["a", "b", "c"], 2) == "a, b and 1 more"
    assert quantities.some_of(["a", "b"], 2) == "a, b"
