"""Ask a second solver about every recorded proof: is there a plan that is faster by more than 0.01 %?

    python -m benchmarks.audit                               # all proofs, 120 processor seconds each
    python -m benchmarks.audit --ids MallocGame-GPT2-v0 MemPlace-AlexNet-v0
    python -m benchmarks.audit --write docs/how-it-is-solved.md    # and docs/data/audit.csv

Proofs are those of ids whose best known plan is within 0.01 % of its bound, and of plans that move tensors in
results/dynamic.jsonl. A plan that is not kept in results/plans is found and proven again, and kept if it has an id; a
faster one takes its place. Beside SCIP's answer a record says by what the bound is proven, weak duality or the tree of
which solver, and whether today's, asked the same question without presolve, agrees. A run that was stopped continues
with what is missing in results/audit.jsonl, and with what is open there if it has more seconds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

import memplace_agents
from benchmarks import dynamic
from benchmarks.cores import single_cores
from benchmarks.ledger import Ledger, Record
from benchmarks.proofs import ENDLESS, OPEN, WARM_UPS, keep, kept_plan
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_agents.exact.highs import find_below
from memplace_agents.exact.second_opinion import Audit
from memplace_agents.optimality import Proof
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_env.leaderboard.pinned import costs_sha256, make_env
from memplace_env.leaderboard.suite import best_known
from memplace_env.placement.task import Task

RESULTS: Final = Path(__file__).parent / "results" / "audit.jsonl"
FIELDS: Final = ("id", "kind")
MOVING: Final = "plans that move tensors"
KINDS: Final = ("maps", "games", "sliced maps", "sliced games", MOVING)
AGAIN_SECONDS, CHECK_SECONDS = 60.0, 30.0
"""Most processor seconds to find a plan again, and to ask HiGHS again without presolve."""
RECORDED: Final = Proof(solver="HiGHS 1.15.1", presolve=True)
"""How recorded bounds were proven: by the version that was pinned then."""
HEADS: Final = (
    "id", "kind", "method", "solver", "presolve", "checked", "latency_ps", "bound_ps", "audit", "answer", "rounds",
    "nodes", "seconds", "faster_ps", "task_sha256", "plan_key", "date",
)  # fmt: skip


def proofs() -> list[Record]:
    """Return id and kind of every recorded proof."""
    proven = [env_id for env_id, known in best_known().items() if known.best_ps / known.bound_ps - 1 <= OPEN]
    moving = [record for record in Ledger(dynamic.RESULTS, dynamic.FIELDS).records if record["outcome"] == "optimal"]
    names = dict.fromkeys(record["name"] for record in moving)
    found = [{"id": env_id, "kind": kind_of(env_id)} for env_id in proven]
    return found + [{"id": Formulation.ONE_SHOT.traits.env_id(name), "kind": MOVING} for name in names]


def kind_of(env_id: str) -> str:
    """Return the kind of an id's plans."""
    kind = "maps" if formulation_of_id(env_id) is Formulation.ONE_SHOT else "games"
    return f"sliced {kind}" if "-Sliced-" in env_id else kind


@cache
def warm_up() -> None:
    """Load compiled code, and count the processor's time from here on."""
    for env_id in WARM_UPS:
        memplace_agents.Exact().solve(env_id)
    time.perf_counter = time.process_time


def measure(run: Record) -> Record:
    """Return id and kind with the proof, the second opinion on it, and the hashes of task and plan."""
    warm_up()
    env_id, env, moves = run["id"], make_env(run["id"]), run["kind"] == MOVING
    plan, proof, bound_ps = None if moves else kept_plan(env_id), RECORDED, best_known()[env_id].bound_ps
    if plan is None:
        agent = memplace_agents.ExactDynamic() if moves else memplace_agents.Exact()
        solution = agent.solve(env, time_limit=AGAIN_SECONDS, budget=ENDLESS)
        assert solution.plan is not None
        assert solution.bound_s is not None
        plan, bound_ps = solution.plan, round(solution.bound_s / PS)
        proof = solution.proof or RECORDED
    kind = Formulation.DYNAMIC if moves else formulation_of_id(env_id)
    audit = Audit(env, plan, kind, seconds=run["limit_s"], gap=OPEN)
    opinion = audit.opinion()
    for found, latency_ps in ((plan, opinion.latency_ps), (opinion.plan, opinion.faster_ps)):
        if found is not None and latency_ps is not None and not moves:
            keep(env_id, latency_ps, found)
    # The program of plans that move tensors was relaxed for its rows, so this takes no time.
    if kind is not Formulation.ONE_SHOT and opinion.latency_ps <= linear_bound(env.task).bound_ps * (1 + OPEN):
        proof = Proof(checked=True)
    elif opinion.answer == "no" and not proof.checked and audit.program is not None:
        checked = find_below(audit.program, audit.cutoff, audit.clock.part(CHECK_SECONDS)) is False
        proof = proof._replace(checked=checked)
    asked = {name: value for name, value in opinion.summary().items() if name != "solver"}
    hashes = {"task_sha256": task_sha256(env.task), "plan_key": plan.key}
    return {**run, **proof.summary(), "bound_ps": bound_ps, "audit": opinion.solver, **asked, **hashes}


def task_sha256(task: Task) -> str:
    """Return the hash of the hashes of program, chip and costs."""
    parts = (task.program.sha256, task.accelerator.sha256, costs_sha256(task.costs))
    return sha256(" ".join(parts).encode()).hexdigest()


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table: proofs of each kind, and what the second solver says of them."""
    rows = []
    for kind in KINDS:
        asked = [record for record in records if record["kind"] == kind]
        counts = [sum(record["answer"] == answer for record in asked) for answer in ("no", "open", "yes")]
        seconds = [record["seconds"] for record in asked]
        counted = [sum(run["kind"] == kind for run in proofs()), len(asked), *counts]
        rows.append([kind, *map(str, counted), f"{sum(seconds):.0f}", f"{max(seconds, default=0):.1f}"])
    return markdown_table(["", "proofs", "asked", "confirmed", "open", "withdrawn", "s", "longest s"], rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--ids", nargs="+", choices=best_known(), metavar="ID", help="only these")
    parser.add_argument("--seconds", type=float, default=120.0, help="processor seconds of each (default 120)")
    options = parser.parse_args()
    runs = [{**run, "limit_s": options.seconds} for run in proofs() if run["id"] in (options.ids or [run["id"]])]
    with single_cores(1) as pool:
        records = Ledger(RESULTS, FIELDS).complete(
            runs, measure, pool, lambda record: record["answer"] != "open" or record["limit_s"] >= options.seconds
        )
    for record in (record for record in records if record["answer"] != "no"):
        print(record["id"], record["kind"], record["answer"], record["faster_ps"])
    rows = [[record[head] for head in HEADS] for record in records]
    publish({"audit": table(records)}, options.write, {"audit.csv": DataFile(HEADS, rows)})


if __name__ == "__main__":
    main()
