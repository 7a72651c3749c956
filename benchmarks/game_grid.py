"""Which settings of mallocGame are worth an id: every program, batch and dtype, and the rule of choice.

The rule, written down before anything was measured. Cheap players are XLA's public option sets and the greedy player.
A setting's proven headroom is the latency of the best cheap plan over that of the best plan found by the exact agent,
which begins with the cheap plans. It counts only if that plan is proven to be within 1 % of the optimum. A program of
the zoo has an id on a chip, at its setting with the largest proven headroom there, if that is at least 3 %. Of equal
headrooms (to six digits) the smaller batch, then the first in the grid. Where the linear program's bound shows that
less than 3 % is left, nobody searches for how much. Settings that are refused, as they do not fit, are recorded so.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import agents
from agents.exact.dynamic.bound import linear_bound_ps
from agents.game.portfolio import Portfolio
from agents.stages import Stage
from agents.xla_msa import PUBLIC_SETS
from benchmarks.as_measured import as_measured
from benchmarks.cores import single_cores
from benchmarks.headroom import DIMS, FIELDS
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import markdown, setting_text
from memplace_env.accelerator import accelerator_names, load_accelerator
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.errors import AcceleratorError, WorkloadError
from memplace_env.registration import Formulation
from memplace_env.units import PS
from memplace_env.workload.resolve import is_built
from memplace_env.workload.zoo import zoo_names

RESULTS = Path(__file__).parent / "results" / "game_grid.jsonl"
HOME = Formulation.GAME.traits.accelerator
BATCHES, DTYPES = (4, 16, 64, 128, 256), ("bfloat16", "int8")
SMALL_BATCHES = (1, 2, 4, 8)
"""On other chips, with the dtype that each is deployed with."""
LEAST_HEADROOM = 1.03
LARGEST_GAP = 0.01
SOLVED = 1e-3
"""Gap at which the exact agent stops here."""
ENDLESS = 10**9


def chips() -> list[str]:
    """The chips that the game is played on, the home of its ids first."""
    able = [name for name in accelerator_names() if load_accelerator(name).num_levels == 2]
    return [HOME, *(name for name in able if name != HOME)]


def grid() -> list[Record]:
    """Every setting that is measured."""
    return [
        {"workload": workload, "accelerator": chip, "batch": batch, "dtype": dtype} | ({"dims": dims} if dims else {})
        for chip in chips()
        for workload in zoo_names()
        if not is_built(workload)
        for dims, batch, dtype in product(
            DIMS.get(workload, [{}]),
            BATCHES if chip == HOME else SMALL_BATCHES,
            DTYPES if chip == HOME else (load_accelerator(chip).dtype,),
        )
    ]


def cheap_stages() -> list[Stage]:
    """The cheap players."""
    stages = [Stage(agents.XlaMsa(each.options), name=f"xla-msa {each.name}") for each in PUBLIC_SETS]
    return [*stages, Stage(agents.GreedyPlayer())]


def measure(setting: Record, time_limit: float) -> Record:
    """What is left over the cheap players in one setting, within that many seconds; latencies in seconds."""
    try:
        env = MallocGameEnv(**as_measured(setting, Formulation.GAME))
    except (AcceleratorError, WorkloadError) as error:
        return {**setting, "refused": str(error)}
    cheap = Portfolio(stages=cheap_stages()).solve(env)
    assert cheap.report is not None
    record = {
        **setting,
        "chip": env.accelerator.name,
        "decisions": env.problem.num_decisions,
        "all_backing_s": cheap.native_latency_s,
        "cheap_s": cheap.report.latency_s,
        "cheap": cheap.found_by,
        "linear_bound_s": linear_bound_ps(env.task, time_limit) * PS,
    }
    if cheap.report.latency_s < LEAST_HEADROOM * record["linear_bound_s"]:
        return record
    stages = [*cheap_stages(), Stage(agents.Exact(mip_gap=SOLVED, cheap=False))]
    exact = Portfolio(stages=stages).solve(env, budget=ENDLESS, time_limit=time_limit)
    assert exact.report is not None
    proven = {"plan_s": exact.report.latency_s, "bound_s": exact.bound_s, "seconds": exact.stints[-1].seconds}
    return {**record, **proven}


def complete(settings: list[Record], time_limit: float, jobs: int) -> list[Record]:
    """The records of these settings; measures what is missing."""
    with single_cores(jobs) as pool:
        return Ledger(RESULTS, FIELDS).complete(settings, partial(measure, time_limit=time_limit), pool)


def saved() -> list[Record]:
    """What has been measured of the grid."""
    return Ledger(RESULTS, FIELDS).of(grid())


def gap(record: Record) -> float:
    """How far the best plan may be from the optimum; infinite where nothing is proven."""
    return record["plan_s"] / record["bound_s"] - 1 if "bound_s" in record else float("inf")


def headroom(record: Record) -> float:
    """Proven headroom; 0 where it does not count."""
    return record["cheap_s"] / record["plan_s"] if gap(record) <= LARGEST_GAP else 0.0


def choose(records: list[Record]) -> list[Record]:
    """The settings that the rule registers, by chip and program; `records` in the order of the grid."""
    best: dict[tuple[str, str], Record] = {}
    for record in sorted(records, key=lambda record: record["batch"]):
        place = record["accelerator"], record["workload"]
        if headroom(record) >= LEAST_HEADROOM and (
            place not in best or round(headroom(record), 6) > round(headroom(best[place]), 6)
        ):
            best[place] = record
    order = product(chips(), zoo_names())
    return [best[place] for place in order if place in best]


def summary(records: list[Record]) -> str:
    """How many settings leave anything."""
    played = [record for record in records if "refused" not in record]
    counted = sum(gap(record) <= LARGEST_GAP for record in played)
    hopeless = sum(record["cheap_s"] < LEAST_HEADROOM * record["linear_bound_s"] for record in played)
    left = sum(headroom(record) >= LEAST_HEADROOM for record in played)
    return (
        f"Of {len(records)} settings {len(records) - len(played)} are refused, as they do not fit. In {hopeless} the "
        f"linear program shows that less than {LEAST_HEADROOM - 1:.0%} is left over the cheap players; of the others "
        f"{counted} are solved to {LARGEST_GAP:.0%}, and {left} of these leave {LEAST_HEADROOM - 1:.0%} or more.\n"
    )


def table(records: list[Record]) -> str:
    """One line a setting, those with most headroom first within a chip and program."""
    played = [record for record in records if "refused" not in record]
    place = {name: index for index, name in enumerate([*chips(), *zoo_names()])}
    played.sort(key=lambda r: (place[r["accelerator"]], place[r["workload"]], -headroom(r)))
    headers = ["program", "chip", "setting", "decisions", "all-backing ms", "best cheap ms", "of", "best plan ms"]
    return markdown([*headers, "gap", "proven headroom", "seconds"], map(_row, played))


def _row(record: Record) -> list[str]:
    row = [record["workload"], record["chip"], setting_text(record)]
    row += [str(record["decisions"]), _ms(record["all_backing_s"]), _ms(record["cheap_s"]), record["cheap"]]
    if "plan_s" not in record:
        most = record["cheap_s"] / max(record["linear_bound_s"], PS) - 1
        return [*row, "–", "–", f"≤ {most:.1%}", "–"]
    proven = f"{headroom(record) - 1:.1%}" if headroom(record) else "–"
    return [*row, _ms(record["plan_s"]), f"{gap(record):.3%}", proven, f"{record['seconds']:.1f}"]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"
