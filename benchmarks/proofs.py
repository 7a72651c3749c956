"""Measure how far the exact agent's plans of registered ids may be from the optimum: the gap of plan and bound.

    python -m benchmarks.proofs                              # all maps and games, 60 processor seconds each
    python -m benchmarks.proofs --seconds 300 --ids MallocGame-GPT2-v0 MallocGame-ALBERT-edge-tpu-v0
    python -m benchmarks.proofs --first 12                   # the first ids by SHA-256, if still open
    python -m benchmarks.proofs --seconds 120 --improve      # what is open, each from its best plan so far on, once for
                                                             # each number of seconds
    python -m benchmarks.proofs --write docs/how-it-is-solved.md    # and docs/data, docs/pictures

Seconds are processor seconds of one core, so that a busy machine changes little (a single call of HiGHS is also ended
by as many seconds of wall time). A run that was stopped continues with what is missing in records/proofs.jsonl.xz; runs
of other versions of the agent have another `--series`. What `--improve` finds is best known, but not in the tables,
whose runs begin with rules. "Before" is the series of that name where it has a record, else what
`memplace_env/envs/best-known.toml` said of the id when its first record of all was written. The plan of each id is kept
in records/plans.zip, from where `benchmarks.leaderboard_known` replays it.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Final
from zipfile import ZIP_LZMA, ZipFile, ZipInfo

import numpy as np

import memplace_agents
from benchmarks.cores import single_cores
from benchmarks.harness import RECORDS
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish
from memplace_agents.search.evaluator import Evaluator
from memplace_agents.solution import Verdict
from memplace_env._lib.files import write_atomically
from memplace_env._lib.units import PS
from memplace_env.envs.best_known import best_known
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.report.style import AXIS_PT, BASELINE, FAINT, INK, LATENCY, NOTE_PT, new_figure, to_png
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.scores import Floats
from memplace_leaderboard.suite import load_suite

RESULTS: Final = RECORDS / "proofs.jsonl.xz"
PLANS: Final = RECORDS / "plans.zip"
"""The kept plans, a JSON file each."""
SUITES: Final = {"one-shot-v1": "maps", "game-v1": "games"}
DOCS: Final = Path(__file__).parents[1] / "docs"
FIELDS: Final = ("id", "series", "seconds")
BEFORE: Final = "before"
NOW: Final = "now"
IMPROVED: Final = "improved"
"""Series of the runs that begin with kept plans."""
OPEN: Final = 1e-4
"""Gap above which an id counts as open."""
LEVELS: Final = (1e-5, 1e-4, 1e-2, 5e-2, 0.1, 0.2)
"""Gaps of the table's rows."""
ENDLESS: Final = 10**9
WARM_UPS: Final = ("MallocGame-SqueezeNet-edge-tpu-v0", "MemPlace-SqueezeNet-v0")
"""Solved in each process first, so that no id is charged for compiled code that is loaded."""


def registered() -> list[str]:
    """Return the ids of the whole suites, in the order of the SHA-256 of the id."""
    ids = [env_id for suite in SUITES for env_id in load_suite(suite).instances]
    return sorted(ids, key=lambda env_id: sha256(env_id.encode()).hexdigest())


def bounds_ps() -> dict[str, int]:
    """Return the highest bound that the runs of today's agent have proven of each id."""
    bounds: dict[str, int] = {}
    for record in Ledger(RESULTS, FIELDS).records:
        if record["series"] in (NOW, IMPROVED):
            bounds[record["id"]] = max(bounds.get(record["id"], 0), record["bound_ps"])
    return bounds


def known_gaps(records: Sequence[Record]) -> dict[str, float]:
    """Return the gap of each id before anything was measured: from its first record, else `best-known.toml`."""
    found = {env_id: known.best_ps / known.bound_ps - 1 for env_id, known in best_known().items()}
    return found | {record["id"]: gap(record, "known_") for record in reversed(records)}


def measure(run: Record) -> Record:
    """Return a run's setting with plan and bound in ps, the processor seconds, and where it was measured."""
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
    known = best_known()[run["id"]]
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


def gaps(records: Sequence[Record], before: Mapping[str, float]) -> tuple[Floats, Floats]:
    """Return the gaps before, which are given by id, and now: float64[n] each, in the order of the records."""
    return np.array([before[record["id"]] for record in records]), np.array([gap(record) for record in records])


def table(found: dict[str, tuple[Floats, Floats]]) -> str:
    """Return a Markdown table: how many ids of each suite have a gap of at most each level, and the sum of all."""
    columns = [gaps for pair in found.values() for gaps in pair]
    rows = [[f"at most {level:.3g}", *(str((gaps <= level).sum()) for gaps in columns)] for level in LEVELS]
    rows.append(["sum of gaps", *(f"{gaps.sum():.1%}" for gaps in columns)])
    heads = [f"{len(now)} {what}, {when}" for what, (_, now) in found.items() for when in (BEFORE, NOW)]
    return markdown_table(["gap", *heads], rows)


def data(records: Sequence[Record], before: Floats, now: Floats) -> DataFile:
    """Return the rows of all ids, by falling gap."""
    heads = ["id", "gap_before", "gap", "latency_ps", "bound_ps", "seconds", "took_s", "commit", "date"]
    order = np.argsort(-now, kind="stable").tolist()
    return DataFile(heads, [[records[i]["id"], before[i], now[i], *(records[i][h] for h in heads[3:])] for i in order])


def picture(found: dict[str, tuple[Floats, Floats]]) -> bytes:
    """Return a PNG with the sorted gaps before and now, a panel for each suite."""
    figure = new_figure(960, 420)
    panels = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (what, pair) in zip(panels, found.items(), strict=True):
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


def main() -> None:
    parser = benchmark_parser(__doc__)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--ids", nargs="+", choices=best_known(), metavar="ID", help="ids, also with slices")
    which.add_argument("--first", type=int, metavar="N", help="the first N ids that best-known.toml leaves open")
    parser.add_argument("--seconds", type=float, default=60.0, help="processor seconds of each id (default 60)")
    parser.add_argument("--improve", action="store_true", help="begin with the kept plans of ids that are still open")
    parser.add_argument("--series", default=NOW, help=f"name of these runs (default {NOW})")
    parser.add_argument("--jobs", type=int, default=1, help="ids side by side (default 1)")
    options = parser.parse_args()
    if options.write and (options.ids or options.first is not None or options.improve):
        parser.error("tables are of all ids from the rules on; leave out --ids, --first and --improve, or --write")
    if options.series == IMPROVED:
        parser.error(f"series {IMPROVED!r} is that of --improve; give another name")
    ledger = Ledger(RESULTS, FIELDS)
    known = known_gaps([] if options.improve else ledger.records)
    series = IMPROVED if options.improve else options.series
    some = options.improve or options.first is not None
    ids = options.ids or [env_id for env_id in registered() if not some or known[env_id] > OPEN]
    runs, earlier = (
        [{"id": env_id, "series": name, "seconds": options.seconds} for env_id in ids[: options.first]]
        for name in (series, BEFORE)
    )
    with single_cores(options.jobs) as pool:
        records = ledger.complete(runs, measure, pool)
    ledger.pack()
    before, now = gaps(records, known | {record["id"]: gap(record) for record in ledger.of(earlier)})
    found = {}
    for suite, what in SUITES.items():
        rows = [row for row, record in enumerate(records) if record["id"] in load_suite(suite).instances]
        if rows:
            found[what] = before[rows], now[rows]
    for record, *both in zip(records, before, now, strict=True):
        print(f"{record['id']:48} {both[0]:10.4%} {both[1]:10.4%} {record['took_s']:8.1f} s")
    publish({"proofs": table(found)}, options.write)
    if options.write:
        write_atomically(DOCS / "data" / "proofs.csv", data(records, before, now).csv())
        write_atomically(DOCS / "pictures" / "proofs.png", picture(found))


if __name__ == "__main__":
    main()
