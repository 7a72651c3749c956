"""Networks that Arm's compiler Vela compiled, and its estimates: benchmarks/data/vela.tar.xz, see vela.md beside it."""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.harness import ROOT

_UNPACKED: Final[list[TemporaryDirectory[str]]] = []
"""Removed when the process ends."""


@cache
def networks() -> Path:
    """Return a folder with the archive's folders `vela`, `vela-more` and `vela-unseen`."""
    _UNPACKED.append(TemporaryDirectory())
    with tarfile.open(ROOT / "benchmarks" / "data" / "vela.tar.xz") as archive:
        archive.extractall(_UNPACKED[-1].name, filter="data")
    return Path(_UNPACKED[-1].name)
