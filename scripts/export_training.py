"""Export training steps to the model zoo: forward, backward and update of public architectures, as saved Programs.

python -m scripts.export_training                        # every step, and XLA's count of it for the tests
python -m scripts.export_training GPT2-train --out DIR   # some of them, elsewhere
python -m scripts.export_training --check                # XLA's counts beside the Programs'; writes nothing
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import jax

import memplace_env
from memplace_env import Program
from scripts.zoo.counts import update_counts
from scripts.zoo.training import language, vision
from scripts.zoo.training.common import Step

ZOO = Path(__file__).resolve().parents[1] / "memplace_env" / "program" / "zoo"
STEPS = {**vision.STEPS, **language.STEPS}
UNROLLED = {"LSTM-train": lambda: language.lstm(unroll=True)}
"""Steps with loops, unrolled for XLA's count, which has a loop's body once."""

CMEM_BYTES = 128 * 2**20


def program(step: Step, name: str) -> Program:
    """Return the step as XLA fuses it for a TPU; its donated state becomes the weights."""
    return memplace_env.from_jax(step.__call__, *step.arguments, donate_argnums=0, name=name)


def counted_by_xla(step: Step) -> float:
    """Return the floating-point operations, transcendental ones included, of the step before any optimisation.

    A loop's body is counted once.
    """
    counts = jax.jit(step.__call__, donate_argnums=0).lower(*step.arguments).cost_analysis()
    return float(counts["flops"] + counts.get("transcendentals", 0.0))


def counted_by_us(program: Program) -> float:
    """Return the floating-point operations of a Program: two for each multiply-accumulate."""
    return float(2 * program.macs.sum() + program.vector_ops.sum())


def check(name: str, step: Step) -> str:
    """Return a row of the table."""
    start = time.perf_counter()
    ours = program(step, name)
    seconds = time.perf_counter() - start
    xla = counted_by_xla(UNROLLED[name]() if name in UNROLLED else step)
    live = ours.live_bytes / CMEM_BYTES
    sizes = f"{live.max():7.1f} {sorted(live)[len(live) // 2]:7.1f} {ours.footprint / 2**30:6.2f}"
    return (
        f"{name:20s} {ours.num_ops:5d} {counted_by_us(ours) / 1e9:10.3f} {xla / 1e9:10.3f} "
        f"{counted_by_us(ours) / xla:8.5f} {sizes} {seconds:6.1f}"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(STEPS))
    parser.add_argument("--out", type=Path, default=ZOO, help="folder of the files")
    parser.add_argument("--check", action="store_true", help="compare with XLA's count and write nothing")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(STEPS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(STEPS)}")
    if options.check:
        print("name                   ops     GFLOP        XLA    ratio  peak and median of live CMEMs, GiB in all, s")
    for name in options.names or STEPS:
        step = STEPS[name]()
        if options.check:
            print(check(name, step), flush=True)
            continue
        path = options.out / f"{name}.program"
        program(step, name).save(path)
        update_counts({name: {"flops": int(counted_by_xla(UNROLLED[name]() if name in UNROLLED else step))}})
        print(f"{name}: {path.stat().st_size / 1e3:.0f} kB", flush=True)


if __name__ == "__main__":
    main()
