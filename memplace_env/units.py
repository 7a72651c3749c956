"""Factors between the integer units of the cost arrays and SI units; they stand nowhere else."""

from __future__ import annotations

PS_PER_S = 10**12
"""Picoseconds in a second."""

PS = 1e-12
"""Seconds in a picosecond."""

PJ = 1e-12
"""Joules in a picojoule."""
