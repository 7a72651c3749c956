"""What is known of the leaderboard's instances: best plans in hand, and bounds.

    python -m benchmarks.leaderboard_known        # measures what is missing, writes suites/best-known.toml

Of an instance it starts with what `benchmarks.suite` found when ids were chosen; a faster plan of any of our verified
submissions replaces that. Of an instance on the machine of the black-box tracks, its maintainers may look inside: the
exact agent under the machine's additive costs gives a bound, as waits are never negative, and its plan, the nominal
optimum and annealing without noise are measured, the fastest counts. Goes on where it was stopped, from
results/black_box.jsonl.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import gymnasium as gym
import tomlkit

import agents
from benchmarks.cores import single_cores
from benchmarks.leaderboard_suites import FOLDER, measured
from benchmarks.ledger import Ledger, Record
from memplace_env.compiler import HEURISTICS
from memplace_env.files import write_atomically
from memplace_env.leaderboard.black_box import BlackBox
from memplace_env.leaderboard.jobs import BOX_SEED, true_latency_ps
from memplace_env.leaderboard.pinned import baseline_plan, is_game, made, task_of
from memplace_env.leaderboard.references import BLACK_BOX
from memplace_env.leaderboard.suite import Suite, load_suite, suite_names
from memplace_env.leaderboard.verifying import verified
from memplace_env.plan import MemoryPlan
from memplace_env.units import PS

RESULTS = Path(__file__).parent / "results" / "black_box.jsonl"
SUBMISSIONS = Path(__file__).parent / "submissions"
SECONDS, EVALUATIONS = 10.0, 4000


def boxed(suite: Suite) -> bool:
    """Whether a suite is played on the machine."""
    return any(track.is_black_box for track in suite.tracks.values())


def measure(record: Record) -> Record:
    """Cheap plans, best plan and bound of one instance on the machine, in ps."""
    env_id = record["env_id"]
    track, task, game = load_suite("quick-v1").track("black-box-2"), task_of(env_id), is_game(env_id)
    generic = "MallocGame-v0" if game else "MemPlace-v0"
    box = BlackBox(BOX_SEED)

    def fastest(plans: list[MemoryPlan]) -> int:
        return min(true_latency_ps(track, env_id, plan) for plan in plans)

    cheap = [baseline_plan(task, game), HEURISTICS["all-fastest"](task)]
    rule = agents.GreedyPlayer() if game else agents.DensityGreedy()
    cheap += [found for found in [rule.solve(made(env_id)).plan] if found]
    nominal = agents.Exact().solve(made(env_id), time_limit=SECONDS)
    inside = gym.make(generic, workload=box.additive_task(task), disable_env_checker=True)
    exact = agents.Exact().solve(inside, time_limit=SECONDS)
    best = [plan for plan in (nominal.plan, exact.plan) if plan] + cheap
    if not game:
        annealed = agents.LocalSearch().solve(made(env_id, box), budget=EVALUATIONS)
        best += [annealed.plan] if annealed.plan else []
    bound = exact.bound_s or exact.report.traffic_bound_s  # type: ignore[union-attr]
    return {
        "env_id": env_id,
        "cheap_ps": fastest(cheap),
        "best_ps": fastest(best),
        "bound_ps": int(bound / PS),
    }


def known(machine: list[Record], submissions: list[Path]) -> dict[str, dict[str, int]]:
    """The contents of best-known.toml."""
    fields = ("cheap_ps", "best_ps", "bound_ps")
    table: dict[str, dict[str, int]] = {
        env_id: {field: row[field] for field in fields} for env_id, row in measured().items()
    }
    table |= {record["env_id"] + BLACK_BOX: {field: record[field] for field in fields} for record in machine}
    for submission in verified(submissions):
        track = load_suite(submission.meta.suite).track(submission.meta.track)
        for entry in submission.entries:
            row: dict[str, Any] | None = table.get(entry.env_id + (BLACK_BOX if track.is_black_box else ""))
            if row is not None:
                row["best_ps"] = min(row["best_ps"], entry.latency_ps)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    suites = [load_suite(name) for name in suite_names()]
    ids = dict.fromkeys(env_id for suite in suites if boxed(suite) for env_id in suite.instances)
    with single_cores(options.jobs) as pool:
        machine = Ledger(RESULTS, ("env_id",)).complete([{"env_id": env_id} for env_id in ids], measure, pool)
    folders = sorted(path.parent for path in SUBMISSIONS.glob("*/submission.toml"))
    write_atomically(FOLDER / "best-known.toml", tomlkit.dumps(known(machine, folders)))


if __name__ == "__main__":
    main()
