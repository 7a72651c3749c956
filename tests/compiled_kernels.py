"""Compile the kernels that most tests need, once for all workers of a session.

`compile_kernels` runs `memplace warm-up` for half of the formulations each in two processes side by side. Without it
each of two workers compiles every kernel for itself, more than a minute each.
"""

from __future__ import annotations

import subprocess
import sys

HALVES = (("one-shot", "steps"), ("game",))


def compile_kernels() -> None:
    """Fill the cache on disk; kernels that are in it already cost seconds."""
    command = [sys.executable, "-m", "memplace", "warm-up"]
    halves = [
        subprocess.Popen([*command, *(f"--formulation={kind}" for kind in half)], stdout=subprocess.DEVNULL)
        for half in HALVES
    ]
    for half in halves:
        half.wait()
