"""Best known plans and bounds of the leaderboard's instances.

    python -m benchmarks.leaderboard_known        # measures what is missing, writes suites/best-known.toml
    python -m benchmarks.leaderboard_known --suites sliced-v1    # keeps the rows of what other suites have

Each instance starts with the results of `benchmarks.suite` or `benchmarks.sliced_ids`. Bounds are those of
`benchmarks.proofs` where it has been run; a faster plan of its, or of any of our verified submissions, replaces theirs.
For the machine of the black-box tracks its costs are read: the exact agent under the machine's additive costs gives a
bound, as waits are never negative; its plan, the nominal optimum and annealing without noise are measured, and the
fastest counts. Continues from results/black_box.jsonl.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium as gym
import tomlkit

import memplace_agents
from benchmarks import proofs
from benchmarks.cores import single_cores
from benchmarks.leaderboard import folders
from benchmarks.leaderboard_suites import FOLDER, measured, measured_slices
from benchmarks.ledger import Ledger, Record
from memplace_env._lib.files import write_atomically
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.leaderboard.black_box import BlackBox
from memplace_env.leaderboard.jobs import BOX_SEED, true_latency_ps
from memplace_env.leaderboard.pinned import baseline_plan, make_env, task_of
from memplace_env.leaderboard.references import BLACK_BOX
from memplace_env.leaderboard.suite import Suite, best_known, load_suite, suite_names
from memplace_env.leaderboard.verifying import verified
from memplace_env.placement.compiler import HEURISTICS
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan

RESULTS = Path(__file__).parent / "results" / "black_box.jsonl"
SECONDS, EVALUATIONS = 10.0, 4000


def boxed(suite: Suite) -> bool:
    """Return whether a suite has black-box tracks on the machine of `BOX_SEED`."""
    return any(track.is_black_box and track.machine is None for track in suite.tracks.values())


def measure(record: Record) -> Record:
    """Measure the rules without search, the best plan and the bound of one instance on the machine, in ps."""
    env_id = record["env_id"]
    track, task, formulation = load_suite("quick-v1").track("black-box-2"), task_of(env_id), formulation_of_id(env_id)
    game = formulation is Formulation.GAME
    generic = formulation.traits.env_id()
    box = BlackBox(BOX_SEED)

    def fastest(plans: list[MemoryPlan]) -> int:
        return min(true_latency_ps(track, env_id, plan) for plan in plans)

    cheap = [baseline_plan(task, formulation), HEURISTICS["all-fastest"](task)]
    rule = memplace_agents.GreedyPlayer() if game else memplace_agents.DensityGreedy()
    cheap += [plan for plan in [rule.solve(make_env(env_id)).plan] if plan]
    nominal = memplace_agents.Exact().solve(make_env(env_id), time_limit=SECONDS)
    inside = gym.make(generic, workload=box.additive_task(task), disable_env_checker=True)
    exact = memplace_agents.Exact().solve(inside, time_limit=SECONDS)
    best = [plan for plan in (nominal.plan, exact.plan) if plan] + cheap
    if not game:
        annealed = memplace_agents.LocalSearch().solve(make_env(env_id, box), budget=EVALUATIONS)
        best += [annealed.plan] if annealed.plan else []
    bound = exact.bound_s or exact.report.traffic_bound_s  # type: ignore[union-attr]
    return {
        "env_id": env_id,
        "cheap_ps": fastest(cheap),
        "best_ps": fastest(best),
        "bound_ps": int(bound / PS),
    }


def known(machine: list[Record], submissions: list[Path]) -> dict[str, dict[str, int]]:
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
    table |= {record["env_id"] + BLACK_BOX: {field: record[field] for field in fields} for record in machine}
    for submission in verified(submissions):
        track = load_suite(submission.meta.suite).track(submission.meta.track)
        if track.machine is not None:  # plans for other machines
            continue
        for entry in submission.entries:
            row: dict[str, Any] | None = table.get(entry.env_id + (BLACK_BOX if track.is_black_box else ""))
            if row is not None:
                row["best_ps"] = min(row["best_ps"], entry.latency_ps)
    for env_id, row in table.items():
        if row["bound_ps"] > row["best_ps"]:
            raise SystemExit(f"{env_id}: a plan takes {row['best_ps']} ps, below the bound, {row['bound_ps']} ps.")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    names = suite_names()
    parser.add_argument("--suites", nargs="+", choices=names, default=names, help="whose submissions are replayed")
    options = parser.parse_args()
    suites = [load_suite(name) for name in names]
    ids = dict.fromkeys(env_id for suite in suites if boxed(suite) for env_id in suite.instances)
    with single_cores(options.jobs) as pool:
        machine = Ledger(RESULTS, ("env_id",)).complete([{"env_id": env_id} for env_id in ids], measure, pool)
    table = known(machine, [folder for name in options.suites for folder in folders(name)])
    others = {env_id for suite in suites if suite.name not in options.suites for env_id in suite.instances}
    kept = {key: asdict(row) for key, row in best_known().items() if key.removesuffix(BLACK_BOX) in others}
    write_atomically(FOLDER / "best-known.toml", tomlkit.dumps(table | kept))


if __name__ == "__main__":
    main()
