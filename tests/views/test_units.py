"""Numbers as people read them."""

from __future__ import annotations

import pytest

from memplace_env.views import units


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 s"), (1.5, "1.50 s"), (0.0012, "1.20 ms"), (0.9997e-3, "1.00 ms"), (42.9e-6, "42.9 µs"), (3e-12, "3 ps")],
)
def test_seconds(value: float, text: str) -> None:
    assert units.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (1, "1 B"), (1023, "1023 B"), (4 * 2**20, "4 MiB"), (384 * 1024, "384 KiB"), (5 * 2**40, "5 TiB")],
)
def test_size(value: int, text: str) -> None:
    assert units.size(value) == text


def test_counts_rates_and_ratios() -> None:
    assert units.count(4_089_200_000, "MAC") == "4.09 GMAC"
    assert units.count(7) == "7"
    assert units.rate(67.2e9) == "67.2 GB/s"
    assert units.ratio(1.2345) == "1.234×"
    assert units.ratio(12.345) == "12.3×"
    assert units.percent(0.0312) == "3.1 %"
    assert units.percent(1) == "100 %"
    assert units.energy(0.0119) == "11.9 mJ"


def test_shortened_keeps_the_end() -> None:
    assert units.shortened("encoder.layer.0.weight", 9) == "…0.weight"
    assert units.shortened("short", 9) == "short"
