"""Other people's libraries, trained on an environment of this package: what they reach and how fast.

Each library has a Python environment of its own below out/libraries, which is made at the first call, with pinned
versions, and one core.
"""

from __future__ import annotations

import fcntl
import json
import os
import statistics
import subprocess
import sys
import tokenize
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.harness import ROOT, Experiment, Records, table
from benchmarks.ledger import Record

HOME: Final = ROOT / "out" / "libraries"
"""Folder of the environments; about 7 GB."""
TORCH: Final = "torch==2.13.0"


class Library(NamedTuple):
    """A library, where it lives and what it can.

    Attributes:
        name: its name.
        glue: module in `examples/libraries` that trains it.
        environment: name of its Python environment, which others may share.
        requirements: what is installed there beside this package; the first is the library.
        masks: whether illegal actions are masked.
    """

    name: str
    glue: str
    environment: str
    requirements: tuple[str, ...]
    masks: bool = True

    @property
    def source(self) -> str:
        """Code that trains it."""
        return (ROOT / "examples" / "libraries" / f"{self.glue}.py").read_text("utf-8")


_SB3: Final = ("stable-baselines3==2.9.2", "sb3-contrib==2.9.2", "gymnasium==1.4.0")
LIBRARIES: Final = (
    Library("Stable-Baselines3", "with_sb3", "sb3", _SB3, masks=False),
    Library("sb3-contrib", "with_sb3_contrib", "sb3", _SB3),
    Library("RLlib", "with_rllib", "rllib", ("ray[rllib]==2.60.0", "gymnasium==1.2.2")),
    Library("TorchRL", "with_torchrl", "torchrl", ("torchrl==0.14.1", "tensordict==0.14.3", "gymnasium==1.4.0")),
    Library("Tianshou", "with_tianshou", "tianshou", ("tianshou==2.0.1", "gymnasium==1.4.0")),
    Library("skrl", "with_skrl", "skrl", ("skrl==2.1.1", "gymnasium==1.4.0")),
    Library("JAX", "with_jax", "jax", ("jax==0.10.2", "jaxlib==0.10.2", "optax==0.2.8", "gymnasium==1.4.0")),
)


def python_of(library: Library) -> Path:
    """Return the Python of a library's environment, which is made if it is missing or has other versions.

    Raises:
        subprocess.CalledProcessError: if something cannot be installed.
    """
    folder = HOME / library.environment
    python, stamp = folder / "bin" / "python", folder / "requirements.json"
    wanted = [TORCH] * (library.environment != "jax") + [*library.requirements, "numpy==2.4.6", "psutil"]
    HOME.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two libraries share an environment
        if stamp.exists() and json.loads(stamp.read_text("utf-8")) == wanted:
            return python
        print(f"installing {library.environment} into {folder}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if TORCH in wanted:  # first and alone: that is the build without CUDA
            subprocess.run([*pip, TORCH], check=True)
        subprocess.run([*pip, *wanted, "--editable", str(ROOT)], check=True)
        stamp.write_text(json.dumps(wanted), "utf-8")
    return python


def run_module(library: Library, module: str, arguments: Sequence[str]) -> str:
    """Return what a module prints that runs in a library's environment, on one thread.

    Raises:
        RuntimeError: if it fails; the last lines say why.
    """
    single = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [str(python_of(library)), "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=kept | single, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError("\n".join(done.stderr.strip().splitlines()[-3:]))
    return done.stdout


ROUND: Final = 32 * 320
"""Steps of a round of collecting and learning, about a game of each environment, in every glue file."""
SECONDS: Final = 60.0
"""Processor seconds of each run."""
SEEDS: Final = 10
TRIAL_SECONDS: Final = 10.0
"""Processor seconds of the trial that says how many steps fit into a run."""
ENDLESS: Final = 10**8


def settings(records: Records = ()) -> list[Record]:
    """Return the settings of all runs."""
    return [
        {"library": library.name, "env": "MallocGame-BERT-v0", "seed": seed, "seconds": SECONDS, "round": ROUND}
        for seed in range(SEEDS)
        for library in LIBRARIES
    ]


def measure(run: Record) -> Record:
    """Return a run's setting with what its trial measured, or with the `error` that ended it."""
    library = next(library for library in LIBRARIES if library.name == run["library"])

    def trial(steps: int, seconds: float) -> Record:
        limits = ["--seed", str(run["seed"]), "--steps", str(steps), "--seconds", str(seconds)]
        arguments = [library.glue, "--env", run["env"], *limits]
        record: Record = json.loads(
            run_module(library, "benchmarks.experiments.library_trial", arguments).splitlines()[-1]
        )
        return record

    try:
        result = trial(round(trial(ENDLESS, TRIAL_SECONDS)["rate"] * run["seconds"]), 1.5 * run["seconds"])
    except RuntimeError as error:
        return {**run, "error": str(error)}
    return {**run, **{key: value for key, value in result.items() if key != "seconds"}, "took_s": result["seconds"]}


def code_lines(source: str) -> int:
    """Return the lines of a source without empty ones, comments and docstrings."""
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    new = True
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type not in nothing and not (new and token.type == tokenize.STRING):
            lines |= set(range(token.start[0], token.end[0] + 1))
        new = token.type in nothing if token.type != tokenize.STRING else False
    return len(lines)


class Runs(NamedTuple):
    """A library with its runs."""

    library: Library
    trained: list[Record]


def by_library(records: Records) -> list[Runs]:
    """Return the runs without errors of each library."""
    done = [record for record in records if "error" not in record]
    return [Runs(library, [r for r in done if r["library"] == library.name]) for library in LIBRARIES]


def over(key: str, of: Callable[[list[float]], float] = statistics.mean, scale: float = 1.0) -> Callable[[Runs], str]:
    """Return a cell: a statistic of the seeds, a dash without runs."""

    def cell(runs: Runs) -> str:
        found = [record[key] for record in runs.trained]
        return f"{of(found) * scale:.2f}" if found else "–"

    return cell


def glue_link(runs: Runs) -> str:
    """Return a cell: the library, with a link to the code that trains it."""
    name, masks = runs.library.name, "" if runs.library.masks else " (no mask)"
    return f"[{name}](../examples/libraries/{runs.library.glue}.py){masks}"


EXPERIMENTS = [
    Experiment(
        "libraries",
        __doc__,
        {
            "docs/environments.md#libraries": table(
                {
                    "library": glue_link,
                    "`pip install`": lambda runs: f"`{' '.join(runs.library.requirements)}`",
                    "lines": lambda runs: code_lines(runs.library.source),
                    "seeds": lambda runs: len(runs.trained),
                    "1,000 steps/s": over("rate", scale=1e-3),
                    "peak": over("peak"),
                    "last 256 games": over("last"),
                    "lowest": over("last", min),
                    "deepest fall": over("fall", max),
                },
                by_library,
            )
        },
        settings,
        measure,
        key=("library", "env", "seed", "seconds", "round"),
        finished=lambda record: "error" not in record,
    )
]
