"""Best known plans and bounds of the leaderboard's instances.

    python -m benchmarks.leaderboard_known        # writes memplace_env/envs/best-known.toml
    python -m benchmarks.leaderboard_known --suites sliced-v1    # keeps the rows of what other suites have

Each instance starts with the results of the experiment `suite` or `sliced-ids`. Bounds are those of
`benchmarks.proofs` where it has been run; a faster plan of its, or of any of our verified submissions, replaces theirs.
On machines that are drawn, what submissions and the judge's references found is the best that is known.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

import tomlkit

from benchmarks import proofs
from benchmarks.leaderboard import folders
from benchmarks.leaderboard_suites import measured, measured_slices
from memplace_env._lib.files import write_atomically
from memplace_env.envs.best_known import best_known
from memplace_env.placement.simulator import evaluate_plan
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.suite import load_suite, suite_names
from memplace_leaderboard.verifying import verified


def known(submissions: list[Path]) -> dict[str, dict[str, int]]:
    """Return the contents of best-known.toml."""
    fields = ("cheap_ps", "best_ps", "bound_ps")
    table: dict[str, dict[str, int]] = {
        env_id: {field: row[field] for field in fields} for env_id, row in (measured() | measured_slices()).items()
    }
    for env_id, bound_ps in proofs.bounds_ps().items():
        plan = proofs.kept_plan(env_id)
        if plan is None:
            raise SystemExit(f"{env_id} has a record in {proofs.RESULTS}, but no plan in {proofs.PLANS}.")
        table[env_id]["bound_ps"] = bound_ps
        table[env_id]["best_ps"] = min(table[env_id]["best_ps"], evaluate_plan(task_of(env_id), plan).latency_ps)
    for submission in verified(submissions):
        track = load_suite(submission.meta.suite).track(submission.meta.track)
        if track.machine is not None:  # plans for other machines
            continue
        for entry in submission.entries:
            row = table[entry.env_id]
            row["best_ps"] = min(row["best_ps"], entry.latency_ps)
    for env_id, row in table.items():
        if row["bound_ps"] > row["best_ps"]:
            raise SystemExit(f"{env_id}: a plan takes {row['best_ps']} ps, below the bound, {row['bound_ps']} ps.")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = suite_names()
    parser.add_argument("--suites", nargs="+", choices=names, default=names, help="whose submissions are replayed")
    options = parser.parse_args()
    suites = [load_suite(name) for name in names]
    table = known([folder for name in options.suites for folder in folders(name)])
    others = {env_id for suite in suites if suite.name not in options.suites for env_id in suite.instances}
    kept = {env_id: asdict(row) for env_id, row in best_known().items() if env_id in others}
    write_atomically(Path(str(files("memplace_env.envs"))) / "best-known.toml", tomlkit.dumps(table | kept))


if __name__ == "__main__":
    main()
