"""Numbers for people: three digits and a unit."""

from __future__ import annotations

from typing import NamedTuple

from memplace_env._lib.units import PJ, PS


class Scale(NamedTuple):
    """A unit and how many base units (seconds, bytes) it has."""

    size: float
    unit: str


_TIMES = (Scale(1.0, "s"), Scale(1e-3, "ms"), Scale(1e-6, "µs"), Scale(1e-9, "ns"), Scale(PS, "ps"))
_BYTES = tuple(Scale(1024.0**power, f"{prefix}iB") for power, prefix in ((4, "T"), (3, "G"), (2, "M"), (1, "K")))
_COUNTS = tuple(Scale(1000.0**power, prefix) for power, prefix in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "k")))
_ENERGIES = (Scale(1.0, "J"), Scale(1e-3, "mJ"), Scale(1e-6, "µJ"), Scale(1e-9, "nJ"), Scale(PJ, "pJ"))


def time_scale(largest_s: float) -> Scale:
    """Return the unit for durations of which the largest has so many seconds."""
    return _fitting(largest_s, _TIMES, _TIMES[-1])


def bytes_scale(largest: float) -> Scale:
    """Return the unit, B to TiB, for sizes of which the largest has so many bytes."""
    return _fitting(largest, _BYTES, Scale(1.0, "B"))


def seconds(value: float) -> str:
    """Return a duration: `seconds(0.0012)` is "1.20 ms"."""
    return _with_unit(value, time_scale(abs(value))) if value else "0 s"


def size(value: float) -> str:
    """Return a number of bytes: `size(4 * 2**20)` is "4 MiB"."""
    return _with_unit(value, bytes_scale(abs(value)))


def energy(joules: float) -> str:
    """Return an energy: `energy(0.012)` is "12.0 mJ"."""
    return _with_unit(joules, _fitting(abs(joules), _ENERGIES, _ENERGIES[-1])) if joules else "0 J"


def count(value: float, unit: str = "") -> str:
    """Return a count with decimal prefixes: `count(4.09e9, "MAC")` is "4.09 GMAC"."""
    scale = _fitting(abs(value), _COUNTS, Scale(1.0, ""))
    return f"{three_digits(value / scale.size)} {scale.unit}{unit}".rstrip()


def rate(bytes_per_s: float) -> str:
    """Return a bandwidth, decimal as data sheets give it: `rate(67.2e9)` is "67.2 GB/s"."""
    return count(bytes_per_s, "B/s")


def ratio(value: float) -> str:
    """Return a factor: `ratio(1.25)` is "1.25×"."""
    return f"{three_digits(value)}×" if value >= 10 else f"{value:.3f}×"


def percent(share: float) -> str:
    """Return a fraction in percent: `percent(0.031)` is "3.1 %"."""
    value = 100 * share
    return f"{value:.0f} %" if abs(value) >= 99.95 or value == 0 else f"{value:.1f} %"


def three_digits(value: float) -> str:
    """Return three significant digits, without an exponent below a million; whole numbers stay whole."""
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    return f"{value:.{digits}f}"


def shortened(name: str, width: int) -> str:
    """Return the name cut in front to at most `width` characters: tensor names differ at their ends."""
    return name if len(name) <= width else "…" + name[len(name) - width + 1 :]


def cut(text: str, width: int) -> str:
    """Return the text cut at its end to at most `width` characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def some_of(texts: list[str], most: int) -> str:
    """Return the first `most` texts in a row: `some_of(["a", "b", "c"], 2)` is "a, b and 1 more"."""
    rest = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {rest} more" if rest > 0 else "")


def _with_unit(value: float, scale: Scale) -> str:
    return f"{three_digits(value / scale.size)} {scale.unit}"


def _fitting(largest: float, scales: tuple[Scale, ...], smallest: Scale) -> Scale:
    """Return the largest unit in which the number is at least 1 once rounded to three digits."""
    return next((scale for scale in scales if largest >= 0.9995 * scale.size), smallest)
