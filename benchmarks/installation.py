"""Install the package into empty environments: with each extra, on each Python.

    python -m benchmarks.installation --pythons python3.11 python3.12 python3.13 --torch 3.11 --write docs/install.md

measures what is missing in `benchmarks/results/installation.jsonl` and prints a table of it. Each environment is made
anew by uv, which must be installed, looked at with `uv pip check`, tried with a command that needs the extra, and
deleted. `agents` is installed on the Python versions of `--torch` only, where PyTorch must come without CUDA.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.fresh_environment import ROOT, TORCH, FreshEnvironment, build_wheel, version_of
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish

RESULTS = Path(__file__).parent / "results" / "installation.jsonl"
NO_EXTRA = "none"
NETWORK = ROOT / "benchmarks" / "data" / "vela" / "mobilenet_v2.tflite"
WITH_JAX = "import jax.numpy as np, memplace_env; memplace_env.from_jax(lambda x: x @ x, np.ones((8, 8)))"
TRIALS = {
    NO_EXTRA: "memplace solve ResNet50",
    "viz": "memplace solve ResNet50",
    "tflite": f"memplace inspect {NETWORK}",
    "execute": "python -c 'from memplace_env.backends.ort.sessions import runtime; runtime()'",
    "jax": f"python -c '{WITH_JAX}'",
    "page": "python -c 'import memplace_env.leaderboard.page.site, plotly'",
    "distributed": "python -c 'import memplace_env.leaderboard.ray_cluster, ray'",
    "minari": "memplace dataset MallocGame-Tiny-v0 --agent greedy-player --episodes 2 --out data",
    "agents": "memplace solve SqueezeNet --agent plan-gradient --budget 512",
}
"""A command that needs the extra, by its name."""
HEADS = ("python", "extra", "megabytes", "packages", "check", "trial", "seconds", "failed", "date")
"""Fields of a record; `seconds` are processor seconds of `trial`, `failed` is its last line if it failed."""


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--pythons", nargs="+", default=[], metavar="PYTHON", help="which to measure")
    parser.add_argument("--torch", nargs="+", default=[], metavar="VERSION", help="of agents")
    parser.add_argument("--extras", nargs="+", default=list(TRIALS), choices=TRIALS, help="default: all")
    arguments = parser.parse_args()
    ledger = Ledger(RESULTS, ("python", "extra"))
    by_version = {version_of(python): python for python in arguments.pythons}
    settings = [
        {"python": version, "extra": extra}
        for extra in arguments.extras
        for version in by_version
        if extra != "agents" or version in arguments.torch
    ]
    with tempfile.TemporaryDirectory() as folder:
        missing = ledger.missing(settings)
        wheel = build_wheel(Path(folder)) if missing else Path()
        for number, setting in enumerate(missing):
            print(f"{number + 1} of {len(missing)}: {setting}", flush=True)
            with tempfile.TemporaryDirectory() as place:
                ledger.add(measured(setting, by_version[setting["python"]], wheel, Path(place)))
    versions = sorted({record["python"] for record in ledger.records})
    records = ledger.of({"python": version, "extra": extra} for extra in TRIALS for version in versions)
    data = DataFile(HEADS, [[record[head] for head in HEADS] for record in records])
    publish({"installation": table(records)}, arguments.write, {"installation.csv": data})


def measured(setting: Record, python: str, wheel: Path, place: Path) -> Record:
    """Return the record of an environment that is made in the folder `place`.

    Raises:
        SystemExit: if nothing can be installed.
    """
    environment, extra = FreshEnvironment(python, place), setting["extra"]
    wanted = [str(wheel)] if extra == NO_EXTRA else [f"{wheel}[{extra}]", *([TORCH] if extra == "agents" else [])]
    installed = environment.run(["uv", "pip", "install", "--quiet", *wanted])
    if installed.code:
        raise SystemExit(f"{setting}: {installed.printed}")
    megabytes = environment.megabytes()
    trial = environment.run(shlex.split(TRIALS[extra]))
    return {
        **setting,
        "megabytes": megabytes,
        "packages": len(environment.packages()),
        "check": environment.run(["uv", "pip", "check"]).complaint or "clean",
        "trial": _shown(TRIALS[extra]),
        "seconds": trial.seconds,
        "failed": trial.complaint,
    }


def table(records: Sequence[Record]) -> str:
    """Return a row for each extra, with what it takes on each Python."""
    versions = sorted({record["python"] for record in records}, key=lambda version: int(version.partition(".")[2]))
    heads = ["extra", *(f"Python {version}" for version in versions), "tried with"]
    return markdown_table(heads, list(_rows(records, versions)))


def _rows(records: Sequence[Record], versions: Sequence[str]) -> Iterator[list[str]]:
    for extra, trial in TRIALS.items():
        found = {record["python"]: record for record in records if record["extra"] == extra}
        if found:
            yield [extra, *(_cell(found.get(version)) for version in versions), f"`{_shown(trial)}`"]


def _cell(record: Record | None) -> str:
    if record is None:
        return "not tried"
    faults = [text for text in (record["failed"], record["check"]) if text not in ("", "clean")]
    return "; ".join([f"{record['megabytes']} MB, {record['seconds']:.0f} s", *faults])


def _shown(trial: str) -> str:
    return trial.replace(f"{ROOT}/", "")


if __name__ == "__main__":
    main()
