"""Install the package beside packages that people use with it, and look whether either breaks.

    python -m benchmarks.neighbours --write docs/install.md

tries what is missing in `benchmarks/results/neighbours.jsonl` and prints tables of it. For each of them uv, which must
be installed, looks for versions of all requirements together, in an empty environment of this script's Python. Small
ones are installed, looked at with `uv pip check`, imported before and after this package, and `MemPlace-Tiny-v0` is
played beside them.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.fresh_environment import TORCH, FreshEnvironment, build_wheel, version_of
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish

RESULTS = Path(__file__).parent / "results" / "neighbours.jsonl"


class Neighbour(NamedTuple):
    """A package that people use beside this one.

    Attributes:
        kind: what it is for.
        name: its name in an index of packages.
        module: what is imported.
        small: whether it is installed, not only resolved.
        beside: further requirements.
        uses: Python that uses it, before the environment is played.
    """

    kind: str
    name: str
    module: str
    small: bool = True
    beside: tuple[str, ...] = ()
    uses: str = "pass"


BOTH_HIGHS = """
from ortools.linear_solver.pywraplp import Solver
theirs = Solver.CreateSolver("HIGHS")
theirs.Maximize(theirs.IntVar(0, 5, "x"))
assert theirs.Solve() == Solver.OPTIMAL
import highspy
ours = highspy.Highs()
ours.addVar(0, 5)
ours.run()
assert ours.getModelStatus() == highspy.HighsModelStatus.kOptimal
"""
"""Solve with OR-Tools' own copy of HiGHS and with the one of this package, in one process."""
NEIGHBOURS = (
    Neighbour("reinforcement learning", "sb3-contrib", "sb3_contrib", beside=(TORCH,)),
    Neighbour("reinforcement learning", "tianshou", "tianshou", beside=(TORCH,)),
    Neighbour("reinforcement learning", "torchrl", "torchrl", beside=(TORCH,)),
    Neighbour("reinforcement learning", "skrl", "skrl", beside=(TORCH,)),
    Neighbour("reinforcement learning", "ray[rllib]", "ray", small=False, beside=(TORCH,)),
    Neighbour("reinforcement learning", "cleanrl", "cleanrl", small=False),
    Neighbour("environments", "gymnasium[classic-control]", "gymnasium"),
    Neighbour("environments", "minigrid", "minigrid"),
    Neighbour("environments", "pettingzoo", "pettingzoo"),
    Neighbour("environments", "minari", "minari"),
    Neighbour("compilers", "onnxruntime", "onnxruntime"),
    Neighbour("compilers", "onnxsim", "onnxsim"),
    Neighbour("compilers", "ethos-u-vela", "ethosu.vela"),
    Neighbour("compilers", "openvino", "openvino"),
    Neighbour("compilers", "jax", "jax"),
    Neighbour("compilers", "iree-base-compiler", "iree.compiler"),
    Neighbour("compilers", "tensorflow-cpu", "tensorflow", small=False),
    Neighbour("solvers", "ortools", "ortools.linear_solver.pywraplp", uses=BOTH_HIGHS),
    Neighbour("agent frameworks", "langchain", "langchain"),
    Neighbour("agent frameworks", "openai", "openai"),
)
PLAY = "import gymnasium; e = gymnasium.make('MemPlace-Tiny-v0'); e.reset(seed=0); e.step(e.action_space.sample())"
SHARED = ("gymnasium", "numpy", "onnx", "scipy", "numba", "highspy", "networkx", "typer", "rich")
"""Our requirements whose versions are recorded."""
HEADS = (
    "kind", "package", "python", "version", "resolved", "installed", "megabytes", "check", "failed", *SHARED, "date",
)  # fmt: skip


def main() -> None:
    arguments = benchmark_parser(__doc__).parse_args()
    ledger = Ledger(RESULTS, ("package",))
    by_name = {neighbour.name: neighbour for neighbour in NEIGHBOURS}
    settings = [{"package": name} for name in by_name]
    missing = ledger.missing(settings)
    with tempfile.TemporaryDirectory() as folder:
        wheel = build_wheel(Path(folder)) if missing else Path()
        for number, setting in enumerate(missing):
            print(f"{number + 1} of {len(missing)}: {setting['package']}", flush=True)
            place = Path(folder) / "place"  # the same each time, so that kernels are compiled once
            ledger.add(tried(by_name[setting["package"]], wheel, place))
            shutil.rmtree(place)
    records = ledger.of(settings)
    data = DataFile(HEADS, [[record.get(head, "") for head in HEADS] for record in records])
    publish({"neighbours": table(records)}, arguments.write, {"neighbours.csv": data})


def tried(neighbour: Neighbour, wheel: Path, place: Path) -> Record:
    """Return the record of a neighbour in an environment that is made in the folder `place`."""
    environment = FreshEnvironment(sys.executable, place, kernels=place.with_name("kernels"))
    wanted = [str(wheel), neighbour.name, *neighbour.beside]
    record: Record = {
        "kind": neighbour.kind,
        "package": neighbour.name,
        "python": version_of(),
    }
    resolved = environment.run(["uv", "pip", "install", "--dry-run", *wanted])
    if resolved.code:
        return {**record, "resolved": False, "installed": False, "failed": " ".join(resolved.printed.split())}
    found = dict(re.findall(r"^ \+ ([\w.-]+)==(\S+)", resolved.printed, re.MULTILINE))
    versions = {name: found[name] for name in SHARED}
    record |= {"version": found[neighbour.name.partition("[")[0]], "resolved": True, "installed": False, **versions}
    if not neighbour.small:
        return record
    installed = environment.run(["uv", "pip", "install", "--quiet", *wanted])
    orders = ["import memplace_env", f"import {neighbour.module}"]
    plays = [
        environment.run(["python", "-c", "\n".join([*order, neighbour.uses, PLAY])]) for order in (orders, orders[::-1])
    ]
    return {
        **record,
        "installed": not installed.code,
        "megabytes": environment.megabytes(),
        "check": environment.run(["uv", "pip", "check"]).complaint or "clean",
        "failed": next((ended.complaint for ended in (installed, *plays) if ended.code), ""),
    }


def table(records: Sequence[Record]) -> str:
    """Return a row for each kind of package: those that can stand beside this one, and what is wrong with others."""
    rows = []
    for kind in dict.fromkeys(record["kind"] for record in records):
        members = [record for record in records if record["kind"] == kind]
        played = [record["package"] for record in members if record["installed"] and not fault_of(record)]
        alone = [record["package"] for record in members if record["resolved"] and not record["installed"]]
        faults = [f"{record['package']}: {fault_of(record)}" for record in members if fault_of(record)]
        rows.append([kind, ", ".join(played), ", ".join(alone) or "–", "; ".join(faults) or "–"])
    return markdown_table(["kind", "installed and played", "versions found", "what is wrong"], rows)


def fault_of(record: Record) -> str:
    """Return what is wrong with a record, an empty text if nothing is."""
    faults = [record.get("failed", ""), record.get("check", "clean")]
    return "; ".join(fault for fault in faults if fault not in ("", "clean"))


if __name__ == "__main__":
    main()
