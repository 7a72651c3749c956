"""Find the arena size with which Arm's Vela compiles a network best.

    pip install ethos-u-vela
    python examples/vela_budget.py net.tflite --accelerator-config ethos-u65-512 --system-config Ethos_U65_High_End

Vela's default core schedules a network for the arena that it is given, and a larger arena is not always better by its
own estimate. What it compiles for a small arena runs in a larger one, so a few compiles find the best size. All options
but the sizes go to Vela.
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SIZES_KIB = [int(size) for size in os.environ.get("SIZES_KIB", "64 96 128 160 192 224 256 288 320 352 384").split()]


def estimate(network: str, options: list[str], arena_bytes: int) -> float:
    """Return the seconds of an inference as Vela estimates them, compiled for an arena of this size."""
    with tempfile.TemporaryDirectory() as folder:
        size = ["--arena-cache-size", str(arena_bytes), "--output-dir", folder]
        done = subprocess.run(["vela", network, *options, *size], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"Vela failed for {arena_bytes:,} bytes:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        (summary,) = Path(folder).glob("*_summary_*.csv")
        (row,) = csv.DictReader(summary.open())
        return float(row["inference_time"])


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    if shutil.which("vela") is None:
        sys.exit("Vela is not installed; run: pip install ethos-u-vela")
    network, options = sys.argv[1], sys.argv[2:]
    found = {kib: estimate(network, options, kib * 1024) for kib in SIZES_KIB}
    best = min(found, key=lambda kib: (found[kib], kib))
    for kib, seconds in found.items():
        least = min(time for size, time in found.items() if size <= kib)
        print(f"{kib:5} KiB {seconds * 1e3:9.3f} ms   {seconds / least:.2f} times the best of the sizes up to it")
    print(f"Best: --arena-cache-size {best * 1024} ({best} KiB), {found[best] * 1e3:.3f} ms.")


if __name__ == "__main__":
    main()
