"""Gaps of plan and bound: the exact agent's plans of registered ids, and the best plans that are known.

The exact agent has `SECONDS` processor seconds of one core for each id, so that a busy machine changes little (a single
call of HiGHS is also ended by as many seconds of wall time). The plan of each id is kept in
memplace_env/envs/best-plans.zip, from where the experiment `best-known` replays it.
"""

from __future__ import annotations

import fcntl
import time
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Final
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

import memplace_agents
from benchmarks.harness import ROOT, Columns, Experiment, Records, data, field
from benchmarks.ledger import Record
from memplace_agents.search.evaluator import Evaluator
from memplace_agents.solution import Verdict
from memplace_env._lib.files import write_atomically
from memplace_env._lib.units import PS
from memplace_env.envs.best_known import PROVEN, known_results
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.suite import load_suite

SUITES: Final = {"one-shot-v1": "one-shot ids", "game-v1": "games"}
"""The whole suites, and what pages call their ids."""
NOW: Final = "now"
IMPROVED: Final = "improved"
"""Series of the runs that begin with kept plans."""
SECONDS: Final = 60.0
IMPROVING_SECONDS: Final = 300.0
OPEN: Final = PROVEN
"""Gap above which an id counts as open, and up to which as proven. Our choice."""
CLOSE: Final = 1e-2
"""Gap up to which it counts as close. Our choice."""
ENDLESS: Final = 10**9
PLANS: Final = ROOT / "memplace_env" / "envs" / "best-plans.zip"
"""The best known plans, a file each."""
WARM_UPS: Final = ("MallocGame-SqueezeNet-edge-tpu-v0", "MemPlace-SqueezeNet-v0")
"""Solved in each process first, so that no id is charged for compiled code that is loaded."""


def registered() -> list[str]:
    """Return the ids of the whole suites, in the order of the SHA-256 of the id."""
    ids = [env_id for suite in SUITES for env_id in load_suite(suite).instances]
    return sorted(ids, key=lambda env_id: sha256(env_id.encode()).hexdigest())


def still_open(records: Records = ()) -> list[Record]:
    """Return the settings of the ids whose best known plan is not proven."""
    known = known_results()
    left = [env_id for env_id in registered() if known[env_id].best_ps > (1 + OPEN) * known[env_id].bound_ps]
    return [{"id": env_id, "series": IMPROVED, "seconds": IMPROVING_SECONDS} for env_id in left]


def bounds_ps() -> dict[str, int]:
    """Return the highest bound that the runs of today's agent have proven of each id."""
    bounds: dict[str, int] = {}
    for record in PROOFS.open().records:
        if record["series"] in (NOW, IMPROVED):
            bounds[record["id"]] = max(bounds.get(record["id"], 0), record["bound_ps"])
    return bounds


def measure(run: Record) -> Record:
    """Return a run's setting with plan and bound in ps, and the processor seconds."""
    agent = memplace_agents.Exact()
    for env_id in WARM_UPS:
        agent.solve(env_id)
    if run["series"] == IMPROVED:
        agent = _FromKept(run["id"])
    # Every clock of the agent counts the processor's time from here on; this process does nothing else.
    time.perf_counter = time.process_time
    began = time.process_time()
    solution = agent.solve(run["id"], budget=ENDLESS, time_limit=run["seconds"])
    assert solution.report is not None
    assert solution.bound_s is not None
    assert solution.plan is not None
    keep(run["id"], solution.report.latency_ps, solution.plan)
    return {
        **run,
        "latency_ps": solution.report.latency_ps,
        "bound_ps": round(solution.bound_s / PS),
        "took_s": round(time.process_time() - began, 2),
        "evaluations": solution.evaluations,
    }


class _FromKept(memplace_agents.Exact):
    """The exact agent, which begins with the plan that is kept of an id, if there is one."""

    def __init__(self, env_id: str) -> None:
        super().__init__()
        self._kept = kept_plan(env_id)

    def run(self, evaluator: Evaluator, seed: int) -> Verdict:
        if self._kept is not None:
            evaluator.offer(self._kept)
        return super().run(evaluator, seed)


def keep(env_id: str, latency_ps: int, plan: MemoryPlan) -> None:
    """Keep a plan of the id's program in place of the kept one, if it is faster, or if that is of an older program."""
    if plan.program_sha256 != task_of(env_id).program.sha256:
        return
    with Path(__file__).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # runs side by side may find plans of one id
        kept = kept_plan(env_id)
        old = kept is None or kept.program_sha256 != plan.program_sha256
        if old or latency_ps < evaluate_plan(task_of(env_id), kept).latency_ps:
            plans, content = {**_plans(), f"{env_id}.json": plan.to_json()}, BytesIO()
            with ZipFile(content, "w") as archive:
                for name in sorted(plans):  # ZipInfo has no time: the same plans are the same bytes
                    archive.writestr(ZipInfo(name), plans[name], ZIP_LZMA)
            write_atomically(PLANS, content.getvalue())


def kept_plan(env_id: str) -> MemoryPlan | None:
    """Return the plan that is kept of an id, or None."""
    plan = _plans(f"{env_id}.json").get(f"{env_id}.json")
    return None if plan is None else MemoryPlan.from_json(plan)


def _plans(only: str = "") -> dict[str, str]:
    """Return the kept plans by the names of their files, or that one."""
    if not PLANS.exists():
        return {}
    with ZipFile(PLANS) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist() if only in ("", name)}


def gap(record: Record) -> float:
    """Return the gap of a record."""
    return float(f"{record['latency_ps'] / record['bound_ps'] - 1:.4e}")


def in_a_minute(records: Records) -> str:
    """Return how many of each suite's ids the agent proves, and how many it brings close."""
    counts = []
    for suite, what in SUITES.items():
        gaps = [gap(record) for record in records if record["id"] in load_suite(suite).instances]
        proven, close = (sum(value <= most for value in gaps) for most in (OPEN, CLOSE))
        counts.append(f"{proven} of {len(gaps)} {what} ({close} are within {100 * CLOSE:g} % of their bounds)")
    return fill(f"In {SECONDS:.0f} seconds of one core the exact agent proves {' and '.join(counts)}.", 120)


def figures(records: Records) -> str:
    """Return a file of all ids, by falling gap."""
    columns: Columns = {"id": field("id"), "gap": gap}
    columns = columns | {head: field(head) for head in "latency_ps bound_ps seconds took_s commit date".split()}
    return str(data(columns, lambda records: sorted(records, key=gap, reverse=True))(records))


def proven(records: Records) -> str:
    """Return how many of each suite's best known plans are proven, on each chip, and what counts as proven."""
    meaning = f"Proven means that the best known plan is at most {100 * OPEN:g} % above its bound."
    return fill(" ".join([*(_sentence(suite, what) for suite, what in SUITES.items()), meaning]), 120)


def _sentence(suite: str, what: str) -> str:
    """Return how many of a suite's ids are proven, on each chip, those with most ids first, and their gaps."""
    known, ids, closed, gaps = known_results(), Counter[str](), Counter[str](), list[float]()
    for env_id, instance in load_suite(suite).instances.items():
        ids[instance.accelerator] += 1
        gaps.append(known[env_id].best_ps / known[env_id].bound_ps - 1)
        closed[instance.accelerator] += gaps[-1] <= OPEN
    *first, last = (f"{closed[chip]} of {count} on `{chip}`" for chip, count in ids.most_common())
    chips = f"{', '.join(first)} and {last}" if first else last
    close = f"{sum(gap <= CLOSE for gap in gaps)} are within {100 * CLOSE:g} % of their bounds"
    worst = f"the widest gap is {100 * max(gaps):.2g} %, and all gaps add up to {100 * sum(gaps):.2g} %"
    return f"Of the {ids.total()} {what} {closed.total()} are proven optimal: {chips}; {close}, {worst}."


KEY: Final[Sequence[str]] = ("id", "series", "seconds")
PROOFS: Final = Experiment(
    "proofs",
    __doc__,
    {"docs/how-it-is-solved.md#proofs": in_a_minute, "docs/data/proofs.csv": figures},
    lambda records: [{"id": env_id, "series": NOW, "seconds": SECONDS} for env_id in registered()],
    measure,
    key=KEY,
)
EXPERIMENTS = [
    PROOFS,
    Experiment(
        "proofs-improved",
        "Ids that are still open, from their kept plans on: best known plans and bounds, which no table shows.",
        {},
        still_open,
        measure,
        key=KEY,
        ledger="proofs",
    ),
    Experiment("proven", "Ids whose best known plan is proven.", {"docs/how-it-is-solved.md#proven": proven}),
]
