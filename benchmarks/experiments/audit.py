"""A second solver's answer on every recorded proof: is there a plan that is faster by more than 0.01 %?

Proofs are those of ids whose best known plan is within 0.01 % of its bound, and of plans that move tensors in the
records of `dynamic`. A plan that is not kept is found and proven again, and kept if it has an id; a faster one takes
its place. Beside SCIP's answer a record says by what the bound is proven, weak duality or the tree of which solver, and
whether today's, asked the same question without presolve, agrees.
"""

from __future__ import annotations

import time
from collections import Counter
from hashlib import sha256
from textwrap import fill
from typing import Final

import memplace_agents
from benchmarks.experiments import dynamic
from benchmarks.experiments.proofs import ENDLESS, OPEN, keep, kept_plan
from benchmarks.harness import Experiment, Records
from benchmarks.ledger import Record
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_agents.exact.highs import find_below
from memplace_agents.exact.second_opinion import Audit
from memplace_agents.optimality import Proof
from memplace_env._lib.units import PS
from memplace_env.envs.best_known import known_results
from memplace_env.envs.registration import Formulation, formulation_of_id
from memplace_leaderboard.pinned import costs_sha256, make_env

SECONDS: Final = 120.0
"""Most processor seconds of each question."""
MOVING: Final = "plans that move tensors"
AGAIN_SECONDS: Final = 60.0
"""Most processor seconds to find a plan again."""
RECORDED: Final = Proof(solver="HiGHS 1.15.1", presolve=True)
"""The proof of recorded bounds, by the version that was pinned then."""


def settings(records: Records = ()) -> list[Record]:
    """Return a setting for each recorded proof, but those of compiled ids, which nobody was asked about yet."""
    runs = []
    for env_id, known in known_results().items():
        if "-Compiled-" in env_id:
            continue
        kind = "maps" if formulation_of_id(env_id) is Formulation.ONE_SHOT else "games"
        if known.best_ps <= (1 + OPEN) * known.bound_ps:
            runs.append({"id": env_id, "kind": f"sliced {kind}" if "-Sliced-" in env_id else kind})
    moving = dynamic.EXPERIMENTS[0].recorded()
    names = dict.fromkeys(record["name"] for record in moving if record["outcome"] == "optimal")
    runs += [{"id": Formulation.ONE_SHOT.traits.env_id(name), "kind": MOVING} for name in names]
    return [{**run, "limit_s": SECONDS} for run in runs]


def measure(run: Record) -> Record:
    """Return a run with the proof, the second opinion on it, and the hashes of task and plan."""
    time.perf_counter = time.process_time  # clocks count the processor's time; this process does nothing else
    env_id, env, moves = run["id"], make_env(run["id"]), run["kind"] == MOVING
    plan, proof, bound_ps = None if moves else kept_plan(env_id), RECORDED, known_results()[env_id].bound_ps
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


def answers(records: Records) -> str:
    """Return what the second solver says of the proofs, and how long that took."""
    proofs, said = settings(), Counter(record["answer"] for record in records)
    kinds = Counter(proof["kind"].replace("maps", "one-shot") for proof in proofs)
    seconds = [record["seconds"] for record in records] or [0.0]
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    return fill(
        f"Of {len(proofs)} proofs ({counts}) SCIP was asked about {len(records)}: it confirms {said['no']}, leaves "
        f"{said['open']} open and refutes {said['yes']}, in {sum(seconds):,.0f} processor seconds, {max(seconds):.0f} "
        "for one at most.",
        120,
    )


EXPERIMENTS = [
    Experiment(
        "audit",
        __doc__,
        {"docs/how-it-is-solved.md#audit": answers},
        settings,
        measure,
        key=("id", "kind"),
        finished=lambda record: record["answer"] != "open" or record["limit_s"] >= SECONDS,
    )
]
