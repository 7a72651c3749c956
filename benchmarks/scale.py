"""Measure time and memory of every stage against the number of ops, as JSON: `python -m benchmarks.scale`.

Every stage of every program runs in a process of its own, with a time limit; where a stage of a program did not end,
larger programs of the same kind leave it out. `--plot` draws the figures, `--write` puts a table of the slopes into a
document and all figures into `data/scale.csv` beside it, and `--from` takes the figures of earlier runs instead of
measuring.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.scale_stages import SAVED, STAGES, spec, write_onnx
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish
from memplace_env._lib.files import write_atomically
from memplace_env.program.frontends.onnx import model_dims
from memplace_env.program.zoo import DEFAULT_DIMS, zoo_names, zoo_path
from memplace_env.report.style import new_figure, to_png

SIZES: Final = (1_000, 3_000, 10_000, 30_000, 100_000)
KINDS: Final = ("onnx-chain", "onnx-residual", "onnx-training", "onnx-sum", "chain", "diamond", "random")
REAL: Final = ("Llama-1B", "Mamba-130M")
SMALL: Final = 24
"""Ops of the program that compiles the kernels."""
FILES_ONLY: Final = frozenset(["load", "roofline", "tiled", "native", "density"])
"""Stages of the residual file; the others do not depend on the source of a program."""
SHOWN_STAGES: Final = (
    "load", "tiled", "native", "native-streamed", "density", "random-game", "greedy-game", "simulate random-game",
    "validate random-game", "traffic bound",
)  # fmt: skip
"""Stages that the tables have; the data file has all."""
NOISE_S, NOISE_MB = 0.003, 2.0
"""Figures below these are noise."""

Row = dict[str, Any]


def measure(kinds: Sequence[str], sizes: Sequence[int], stages: Sequence[str], limit: float) -> Iterator[Row]:
    """Yield a row for each stage of each program; `seconds` is None if it did not end or failed."""
    with tempfile.TemporaryDirectory() as home:
        for kind in kinds:
            beyond: set[str] = set()
            for ops in (0,) if kind in REAL else sizes:
                root = Path(home) / f"{kind}-{ops}"
                if kind in REAL and not _real(root, kind):
                    continue
                if kind not in REAL:
                    _made(root / "large", kind, ops)
                    _made(root / "small", kind, SMALL)
                yield from _stages(root, kind, ops, stages, beyond, limit)


def _stages(root: Path, kind: str, ops: int, stages: Iterable[str], beyond: set[str], limit: float) -> Iterator[Row]:
    for stage in stages:
        if stage in beyond or (kind == "onnx-residual" and stage not in FILES_ONLY):
            continue
        if stage in SAVED:
            _run(stage, root / "small", 10 * limit)
        figures = _run(stage, root / "large", limit)
        row = {"kind": kind, "ops": ops, "stage": stage, "seconds": None, **(figures or {})}
        ops = row["ops"]
        if figures is None:
            beyond |= set(STAGES) if stage == "load" else {stage}
        print(f"{kind} {ops} {stage}: {row['seconds']}", file=sys.stderr)
        yield row


def _run(stage: str, folder: Path, limit: float) -> Row | None:
    """Return the figures of a stage from a process of its own; None if it failed or took too long."""
    command = [sys.executable, "-m", "benchmarks.scale_stages", stage, str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=True)
    except subprocess.TimeoutExpired:
        return None
    except subprocess.CalledProcessError as error:
        print(f"{stage}: {error.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
        return None
    figures: Row = json.loads(done.stdout)
    return figures


def _made(folder: Path, kind: str, ops: int) -> None:
    """Write the folder of a synthetic program: its file, if it has one, and its source."""
    folder.mkdir(parents=True)
    source: Row = {"path": None, "name": spec(kind, ops), "batch": None, "dims": None}
    if kind.startswith("onnx-"):
        source["path"] = str(folder / "model.onnx")
        write_onnx(kind.removeprefix("onnx-"), ops, folder / "model.onnx")
    (folder / "source.json").write_text(json.dumps(source))


def _real(root: Path, name: str) -> bool:
    """Write the folders of a program of the zoo and of a small one for the kernels; return False if it has no file."""
    if name not in zoo_names() or zoo_path(name).suffix != ".onnx":
        return False
    for folder, program in (("large", name), ("small", "AlexNet")):
        (root / folder).mkdir(parents=True)
        dims = {dim: DEFAULT_DIMS[dim] for dim in model_dims(zoo_path(program)) if dim != "batch"}
        source = {"path": str(zoo_path(program)), "name": program, "batch": 1, "dims": dims}
        (root / folder / "source.json").write_text(json.dumps(source))
    return True


def slope(rows: Sequence[Row], figure: str) -> float | None:
    """Return the least-squares slope of log(figure) against log(ops); None for fewer than three points."""
    least = NOISE_S if figure == "seconds" else NOISE_MB
    points = [(row["ops"], row[figure]) for row in rows if row["seconds"] is not None and row[figure] > least]
    if len(points) < 3:
        return None
    at, values = np.log(np.array(points)).T
    return float(np.polyfit(at, values, 1)[0])


def draw(rows: Sequence[Row]) -> bytes:
    """Return a PNG: seconds above, memory below, a column for each kind of program, slopes in the legends.

    A kind without figures above the noise in one of the two has no column.
    """
    units = (("seconds", NOISE_S / 3), ("mb", NOISE_MB))
    shown = [row for row in rows if row["seconds"] is not None]
    kinds = [
        kind for kind in KINDS if all(any(r["kind"] == kind and r[u] > least for r in shown) for u, least in units)
    ]
    figure = new_figure(380 * len(kinds) + 60, 1150)
    axes = figure.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
    names = [stage for stage in STAGES if any(row["stage"] == stage for row in rows)]
    for column, kind in enumerate(kinds):
        for panel, (unit, least) in zip(axes[:, column], units, strict=True):
            for number, stage in enumerate(names):
                mine = [r for r in shown if (r["kind"], r["stage"]) == (kind, stage)]
                points = [(r["ops"], r[unit]) for r in mine if r[unit] > least]
                if not points:
                    continue
                steep = slope(mine, unit)
                label = stage + ("" if steep is None else f"  {steep:.2f}")
                style = {"marker": "osD^v<>"[number % 7], "markersize": 3.5, "linewidth": 1.2, "label": label}
                panel.plot(*zip(*points, strict=True), color=_COLOURS[number % len(_COLOURS)], **style)
            panel.set(xscale="log", yscale="log")
            panel.grid(which="major", color="#dddddd", linewidth=0.6)
            panel.legend(fontsize=6.5, frameon=False, loc="upper left", title="slope", title_fontsize=6.5)
        axes[0, column].set_title(kind, fontsize=10)
        axes[1, column].set_xlabel("ops")
    axes[0, 0].set_ylabel("processor seconds")
    axes[1, 0].set_ylabel("memory beyond the program, MB")
    low, high = axes[0, 0].get_ylim()
    axes[0, 0].set_ylim(low, high * 300)
    low, high = axes[1, 0].get_ylim()
    axes[1, 0].set_ylim(low, high * 30)
    figure.subplots_adjust(left=0.05, right=0.99, top=0.96, bottom=0.05, wspace=0.05, hspace=0.05)
    return to_png(figure)


_COLOURS: Final = (
    "#1f6fb4", "#d1495b", "#edae49", "#3a7d44", "#8d5a97", "#17a2a2", "#c17c3e",
    "#0b3d66", "#e377c2", "#555555", "#7fb2dc", "#b5bd4c", "#9a9a9a", "#000080",
)  # fmt: skip


def table(rows: Sequence[Row], kinds: Sequence[str]) -> str:
    """Return a Markdown table: seconds at each kind's largest size, and slopes, by stage."""
    kinds = [kind for kind in kinds if any(row["kind"] == kind for row in rows)]
    stages = [stage for stage in SHOWN_STAGES if any(row["stage"] == stage for row in rows)]

    def cell(kind: str, stage: str) -> str:
        mine = [row for row in rows if (row["kind"], row["stage"]) == (kind, stage)]
        if not mine:
            return "–"
        last, steep = mine[-1], slope(mine, "seconds")
        if last["seconds"] is None:
            return f"no end at {last['ops']:,}"
        text = f"{last['seconds']:.3g} s" if last["seconds"] > NOISE_S else "< 3 ms"
        return text + ("" if steep is None else f", n^{steep:.2f}")

    heads = [f"{kind}, {max(row['ops'] for row in rows if row['kind'] == kind):,} ops" for kind in kinds]
    return markdown_table(["stage", *heads], ([stage, *(cell(kind, stage) for kind in kinds)] for stage in stages))


def data_of(rows: Sequence[Row]) -> DataFile:
    """Return all figures, a row for each stage of each program; no seconds where it did not end."""
    heads = ("kind", "ops", "stage", "seconds", "mb")
    lines = [
        [row["kind"], row["ops"], row["stage"], *("" if row["seconds"] is None else f"{row[u]:.4g}" for u in heads[3:])]
        for row in rows
    ]
    return DataFile(heads, lines)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--kinds", nargs="+", default=(*KINDS, *REAL), choices=(*KINDS, *REAL))
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--stages", nargs="+", default=tuple(STAGES), choices=STAGES)
    parser.add_argument(
        "--limit", type=float, default=60, help="seconds for one stage, with all it needs (%(default)s)"
    )
    parser.add_argument("--from", dest="known", nargs="+", type=Path, help="figures of earlier runs")
    parser.add_argument("--plot", type=Path, help="where to draw the figures")
    arguments = parser.parse_args()
    if arguments.known is None:
        rows: list[Row] = []
        for row in measure(arguments.kinds, arguments.sizes, arguments.stages, arguments.limit):
            print(",\n" if rows else "[\n", json.dumps(row), sep="", end="", flush=True)
            rows.append(row)
        print("\n]")
    else:
        rows = [row for file in arguments.known for row in json.loads(file.read_text())]
    if arguments.plot is not None:
        write_atomically(arguments.plot, draw(rows))
    if arguments.write:
        publish({"scale": table(rows, (*KINDS, *REAL))}, arguments.write, {"scale.csv": data_of(rows)})


if __name__ == "__main__":
    main()
