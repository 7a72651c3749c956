"""Install the package into empty environments: with each extra, on each Python.

    python -m benchmarks.installation --pythons python3.11 python3.12 python3.13 --torch 3.11 --write docs/install.md

measures what is missing in `benchmarks/results/installation.jsonl` and prints a table of it. Each environment is made
anew with pip, looked at with `pip check`, tried with a command that needs the extra, and deleted. The extra `agents` is
installed on the Python versions of `--torch` only, after torch itself: elsewhere that may be several GB of CUDA.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.fresh_environment import ROOT, FreshEnvironment, build_wheel
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish

RESULTS = Path(__file__).parent / "results" / "installation.jsonl"
TORCH = "torch==2.13.0"
NO_EXTRA = "none"
NETWORK = ROOT / "benchmarks" / "data" / "vela" / "mobilenet_v2.tflite"
WITH_JAX = (
    "import jax.numpy as np, memplace_env; print(memplace_env.from_jax(lambda x: x @ x, np.ones((8, 8))).num_ops)"
)
TRIALS = {
    NO_EXTRA: "memplace solve ResNet50",
    "viz": "memplace solve ResNet50",
    "tflite": f"memplace inspect {NETWORK}",
    "execute": "python -c 'from memplace_env.backends.ort.sessions import runtime; runtime()'",
    "jax": f"python -c '{WITH_JAX}'",
    "page": "python -c 'import memplace_env.leaderboard.page.site, plotly'",
    "distributed": "python -c 'import memplace_env.leaderboard.ray_cluster, ray'",
    "minari": "memplace dataset MallocGame-Tiny-v0 --agent greedy-player --episodes 2 --out data",
    "agents": "memplace solve SqueezeNet --agent ppo --budget 512",
}
"""A command that needs the extra, by its name."""
HEADS = (
    "python", "extra", "install_s", "megabytes", "packages", "pip_check", "trial", "trial_s", "failed", "date",
)  # fmt: skip
"""Fields of a record; seconds are those of processors, the last two of `trial` and of its last line if it failed."""


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument(
        "--pythons", nargs="+", default=[], metavar="PYTHON", help="interpreters; none measures nothing"
    )
    parser.add_argument(
        "--torch", nargs="+", default=[], metavar="VERSION", help="versions on which agents is measured"
    )
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
    records = ledger.of(
        {"python": v, "extra": e} for e in TRIALS for v in sorted({r["python"] for r in ledger.records})
    )
    data = DataFile(HEADS, [[record[head] for head in HEADS] for record in records])
    publish({"installation": table(records)}, arguments.write, {"installation.csv": data})


def version_of(python: str) -> str:
    """Return an interpreter's version, such as "3.11"."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def measured(setting: Record, python: str, wheel: Path, place: Path) -> Record:
    """Return the record of an environment that is made in the folder `place`."""
    environment, extra = FreshEnvironment(python, place), setting["extra"]
    before = [TORCH] if extra == "agents" else []
    wanted = str(wheel) if extra == NO_EXTRA else f"{wheel}[{extra}]"
    installs = [environment.pip("install", "--quiet", *each) for each in (before, [wanted]) if each]
    if failed := next((each.complaint for each in installs if each.code), ""):
        raise SystemExit(f"{setting}: pip install says: {failed}")
    megabytes = environment.megabytes()
    trial = environment.run(shlex.split(TRIALS[extra]))
    return {
        **setting,
        "install_s": round(sum(each.seconds for each in installs), 1),
        "megabytes": megabytes,
        "packages": len(environment.packages()),
        "pip_check": environment.pip("check").complaint or "clean",
        "trial": TRIALS[extra].replace(f"{ROOT}/", ""),
        "trial_s": trial.seconds,
        "failed": trial.complaint,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
    }


def table(records: Sequence[Record]) -> str:
    """Return a row for each extra, with what it takes on each Python."""
    versions = sorted({record["python"] for record in records})
    heads = ["extra", *(f"Python {version}" for version in versions), "tried with"]
    return markdown_table(heads, list(_rows(records, versions)))


def _rows(records: Sequence[Record], versions: Sequence[str]) -> Iterator[list[str]]:
    for extra, trial in TRIALS.items():
        found = {record["python"]: record for record in records if record["extra"] == extra}
        if found:
            shown = trial.replace(f"{ROOT}/", "")
            yield [extra, *(_cell(found.get(version)) for version in versions), f"`{shown}`"]


def _cell(record: Record | None) -> str:
    if record is None:
        return "not tried"
    faults = [text for text in (record["failed"], record["pip_check"]) if text not in ("", "clean")]
    return "; ".join([f"{record['megabytes']} MB, {record['install_s'] + record['trial_s']:.0f} s", *faults])


if __name__ == "__main__":
    main()
