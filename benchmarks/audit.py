"""Ask a second solver about every recorded proof: is there a plan that is faster by more than 0.01 %?

    python -m benchmarks.audit                               # all proofs, 120 processor seconds each
    python -m benchmarks.audit --write docs/how-it-is-solved.md

Proofs are those of ids whose best known plan is within 0.01 % of its bound, and of plans that move tensors in
results/dynamic.jsonl. A plan that is not kept in results/plans is found and proven again, and kept if it has an id; a
faster one takes its place. Beside SCIP's answer a record says by what the bound is proven, weak duality or the tree of
which solver, and whether today's, asked the same question without presolve, agrees. A run that was stopped continues
with what is missing in results/audit.jsonl, and with what is open there if it has more seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Final

import memplace_agents
from benchmarks import dynamic
from benchmarks.cores import single_cores
from benchmarks.ledger import Ledger, Record
from benchmarks.proofs import ENDLESS, OPEN, keep, kept_plan
from benchmarks.tables import benchmark_parser, markdown_table, publish
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_agents.exact.highs import find_below
from memplace_agents.exact.second_opinion import Audit
from memplace_agents.optimality import Proof
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.leaderboard.pinned import costs_sha256, make_env
from memplace_env.leaderboard.suite import best_known

RESULTS: Final = Path(__file__).parent / "results" / "audit.jsonl"
FIELDS: Final = ("id", "kind")
MOVING: Final = "plans that move tensors"
AGAIN_SECONDS: Final = 60.0
"""Most processor seconds to find a plan again."""
RECORDED: Final = Proof(solver="HiGHS 1.15.1", presolve=True)
"""The proof of recorded bounds, by the version that was pinned then."""


def proofs(seconds: float) -> list[Record]:
    """Return the runs of all recorded proofs."""
    runs = []
    for env_id, known in best_known().items():
        kind = "maps" if formulation_of_id(env_id) is Formulation.ONE_SHOT else "games"
        if known.best_ps / known.bound_ps - 1 <= OPEN:
            runs.append({"id": env_id, "kind": f"sliced {kind}" if "-Sliced-" in env_id else kind})
    moving = [record for record in Ledger(dynamic.RESULTS, dynamic.FIELDS).records if record["outcome"] == "optimal"]
    names = dict.fromkeys(record["name"] for record in moving)
    runs += [{"id": Formulation.ONE_SHOT.traits.env_id(name), "kind": MOVING} for name in names]
    return [{**run, "limit_s": seconds} for run in runs]


def measure(run: Record) -> Record:
    """Return a run with the proof, the second opinion on it, and the hashes of task and plan."""
    time.perf_counter = time.process_time  # clocks count the processor's time; this process does nothing else
    env_id, env, moves = run["id"], make_env(run["id"]), run["kind"] == MOVING
    plan, proof, bound_ps = None if moves else kept_plan(env_id), RECORDED, best_known()[env_id].bound_ps
    if plan is None or plan.program_sha256 != env.task.program.sha256:
        agent = memplace_agents.ExactDynamic() if moves else memplace_agents.Exact()
        solution = agent.solve(env, time_limit=AGAIN_SECONDS, budget=ENDLESS)
        assert solution.plan is not None
        assert solution.bound_s is not None
        plan, proof, bound_ps = solution.plan, solution.proof or RECORDED, round(solution.bound_s / PS)
    kind = Formulation.DYNAMIC if moves else formulation_of_id(env_id)
    audit = Audit(env, plan, kind, run["limit_s"], OPEN)
    opinion = audit.opinion()
    if not moves:
        keep(env_id, opinion.faster_ps or opinion.latency_ps, opinion.plan or plan)
    # The audit has solved the linear program of plans that move tensors already.
    if kind is not Formulation.ONE_SHOT and opinion.latency_ps <= linear_bound(env.task).bound_ps * (1 + OPEN):
        proof = Proof(checked=True)
    elif opinion.answer == "no" and not proof.checked:
        proof = proof._replace(checked=find_below(audit.program, audit.cutoff, audit.clock) is False)
    task, asked = env.task, opinion._asdict()
    del asked["plan"]
    by = asked.pop("solver")
    parts = f"{task.program.sha256} {task.accelerator.sha256} {costs_sha256(task.costs)}"
    hashes = {"task_sha256": sha256(parts.encode()).hexdigest(), "plan_key": plan.key}
    return {**run, **proof.summary(), "bound_ps": bound_ps, "audit": by, **asked, **hashes}


def table(runs: Sequence[Record], records: Sequence[Record]) -> str:
    """Return a Markdown table: proofs of each kind, and what the second solver says of them."""
    rows = []
    for kind in dict.fromkeys(run["kind"] for run in runs):
        asked = [record for record in records if record["kind"] == kind]
        counts = [sum(record["answer"] == answer for record in asked) for answer in ("no", "open", "yes")]
        proven, seconds = sum(run["kind"] == kind for run in runs), [record["seconds"] for record in asked]
        rows.append(
            [kind, *map(str, (proven, len(asked), *counts)), f"{sum(seconds):.0f}", f"{max(seconds, default=0):.0f}"]
        )
    return markdown_table(["", "proofs", "asked", "confirmed", "open", "withdrawn", "s", "longest s"], rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=120.0, help="processor seconds of each (default 120)")
    options = parser.parse_args()
    runs, ledger = proofs(options.seconds), Ledger(RESULTS, FIELDS)
    with single_cores(1) as pool:
        records = ledger.complete(
            runs, measure, pool, lambda record: record["answer"] != "open" or record["limit_s"] >= options.seconds
        )
    for record in (record for record in records if record["answer"] != "no"):
        print(record["id"], record["kind"], record["answer"], record["faster_ps"])
    publish({"audit": table(runs, records)}, options.write)


if __name__ == "__main__":
    main()
