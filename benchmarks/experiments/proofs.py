"""Gaps of plan and bound: the exact agent's plans of registered ids, and the best plans that are known.

The exact agent has `SECONDS` processor seconds of one core for each id, so that a busy machine changes little (a single
call of HiGHS is also ended by as many seconds of wall time). "Before" is the series of that name where it has a record,
else what `memplace_env/envs/best-known.toml` said of the id when its first record of all was written. The plan of each
id is kept in memplace_env/envs/best-plans.zip, from where the experiment `best-known` replays it.
"""

from __future__ import annotations

import fcntl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from textwrap import fill
from typing import Any, Final, NamedTuple
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

import numpy as np

import memplace_agents
from benchmarks.harness import ROOT, Columns, Experiment, Records, data, field, table
from benchmarks.ledger import Record
from memplace_agents.search.evaluator import Evaluator
from memplace_agents.solution import Verdict
from memplace_env._lib.files import write_atomically
from memplace_env._lib.units import PS
from memplace_env.envs.best_known import PROVEN, known_results
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.report.style import AXIS_PT, BASELINE, FAINT, INK, LATENCY, NOTE_PT, new_figure, to_png
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.scores import Floats
from memplace_leaderboard.suite import load_suite

SUITES: Final = {"one-shot-v1": ("maps", "one-shot ids"), "game-v1": ("games", "games")}
"""The whole suites, and what the table and the sentence call their ids."""
BEFORE: Final = "before"
NOW: Final = "now"
IMPROVED: Final = "improved"
"""Series of the runs that begin with kept plans."""
SECONDS: Final = 60.0
IMPROVING_SECONDS: Final = 300.0
OPEN: Final = PROVEN
"""Gap above which an id counts as open, and up to which as proven. Our choice."""
CLOSE: Final = 1e-2
"""Gap up to which it counts as close. Our choice."""
LEVELS: Final = (1e-5, 1e-4, 1e-2, 5e-2, 0.1, 0.2)
"""Gaps of the table's rows."""
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
    gaps = {env_id: known.best_ps / known.bound_ps - 1 for env_id, known in known_results().items()}
    return [{"id": i, "series": IMPROVED, "seconds": IMPROVING_SECONDS} for i in registered() if gaps[i] > OPEN]


def bounds_ps() -> dict[str, int]:
    """Return the highest bound that the runs of today's agent have proven of each id."""
    bounds: dict[str, int] = {}
    for record in PROOFS.open().records:
        if record["series"] in (NOW, IMPROVED):
            bounds[record["id"]] = max(bounds.get(record["id"], 0), record["bound_ps"])
    return bounds


def measure(run: Record) -> Record:
    """Return a run's setting with plan and bound in ps, the processor seconds, and what was known before."""
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
    known = known_results()[run["id"]]
    return {
        **run,
        "latency_ps": solution.report.latency_ps,
        "bound_ps": round(solution.bound_s / PS),
        "took_s": round(time.process_time() - began, 2),
        "evaluations": solution.evaluations,
        "known_best_ps": known.best_ps,
        "known_bound_ps": known.bound_ps,
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
    """Keep a plan in place of the one that is kept of the id, if it is faster or that is of an older program."""
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


def gap(record: Record, prefix: str = "") -> float:
    """Return the gap of a record, or of what was known with the prefix "known_"."""
    latency = record["known_best_ps"] if prefix else record["latency_ps"]
    return float(f"{latency / record[f'{prefix}bound_ps'] - 1:.4e}")


def gaps_before(records: Records) -> dict[str, float]:
    """Return the gap of each id before the series `NOW`, given all records."""
    first = {record["id"]: gap(record, "known_") for record in reversed(records)}
    return first | {record["id"]: gap(record) for record in records if record["series"] == BEFORE}


class Gaps(NamedTuple):
    """Gaps of a suite's ids, float64[ids] each."""

    name: str
    before: Floats
    now: Floats


def by_suite(records: Records) -> list[Gaps]:
    """Return the gaps of each suite's ids."""
    before, found = gaps_before(PROOFS.open().records), []
    for suite, (name, _) in SUITES.items():
        mine = [record for record in records if record["id"] in load_suite(suite).instances]
        found.append(Gaps(name, np.array([before[r["id"]] for r in mine]), np.array([gap(r) for r in mine])))
    return found


def counts(records: Records) -> str:
    """Return a table: how many ids of each suite have a gap of at most each level, and the sum of all."""

    def column(gaps: Floats) -> Callable[[float | None], str]:
        return lambda level: f"{gaps.sum():.1%}" if level is None else str((gaps <= level).sum())

    columns: dict[str, Callable[[Any], str]] = {
        "gap": lambda level: "sum of gaps" if level is None else f"at most {level:.3g}"
    }
    for suite in by_suite(records):
        columns |= {f"{len(suite.now)} {suite.name}, {when}": column(getattr(suite, when)) for when in (BEFORE, NOW)}
    return str(table(columns, lambda records: (*LEVELS, None))(records))


def figures(records: Records) -> str:
    """Return a file of all ids, by falling gap."""
    before = gaps_before(PROOFS.open().records)
    columns: Columns = {"id": field("id"), "gap_before": lambda record: before[record["id"]], "gap": gap}
    columns = columns | {head: field(head) for head in "latency_ps bound_ps seconds took_s commit date".split()}
    return str(data(columns, lambda records: sorted(records, key=gap, reverse=True))(records))


def picture(records: Records) -> bytes:
    """Return a PNG with the sorted gaps before and now, a panel for each suite."""
    found, figure = by_suite(records), new_figure(960, 420)
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (what, *pair) in zip(panels, found, strict=True):
        for label, values, colour in zip((BEFORE, NOW), pair, (BASELINE, LATENCY), strict=True):
            axes.plot(np.arange(1, len(values) + 1), np.sort(values.clip(1e-6))[::-1], color=colour, label=label)
        axes.axhline(OPEN, color=FAINT, linewidth=1.2)
        axes.set_yscale("log")
        axes.set_xlabel(f"{what}, by falling gap", fontsize=AXIS_PT, color=INK)
        axes.grid(color=FAINT, linewidth=0.6)
        axes.legend(fontsize=NOTE_PT)
    panels[0].set_ylabel("gap of plan and bound", fontsize=AXIS_PT, color=INK)
    figure.tight_layout()
    return to_png(figure)


def proven(records: Records) -> str:
    """Return how many of each suite's best known plans are proven, on each chip, and what counts as proven."""
    meaning = f"Proven means that the best known plan is at most {100 * OPEN:g} % above its bound."
    return fill(" ".join([*(_sentence(suite, what) for suite, (_, what) in SUITES.items()), meaning]), 120)


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
    {
        "docs/how-it-is-solved.md#proofs": counts,
        "docs/data/proofs.csv": figures,
        "docs/pictures/proofs.png": picture,
    },
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
