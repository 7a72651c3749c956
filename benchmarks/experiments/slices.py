"""Gain of slices: a curve over their size, and the best plans of the registered one-shot settings.

The curve: density-greedy on the programs of `CURVE` on the chips of `CHIPS`, at the chip's own dtype, for each share
of `SHARES`; None is without slices. The gains: every id `MemPlace-<name>-v0`, without slices and at `SHARE`, by
density-greedy and by the exact agent, which stops after `SECONDS`. Seconds are processor
seconds of one core.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from operator import itemgetter
from typing import Any, Final, NamedTuple

import memplace_agents
from benchmarks.harness import SHOWN, Columns, Experiment, Records, Row, data, field, milliseconds, table
from benchmarks.ledger import Record
from memplace_agents.search.agent import Agent
from memplace_agents.solution import Solution
from memplace_env._lib.errors import MemPlaceError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator import accelerator_names
from memplace_env.program.model_file import as_written

KEY: Final = ("table", "name", "accelerator", "slices")
CURVE: Final = (*SHOWN, "InceptionV3", "ALBERT")
CHIPS: Final = accelerator_names()
SHARES: Final = (None, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
SHARE: Final = 0.1
SECONDS: Final = 10.0
LEAST: Final = 1.02
"""Latency without slices over that with them from which a gain is counted. Our choice."""
MOST_TIMES: Final = 3.0
"""Times as long as without slices: the aim for the exact agent."""
EVERY: Final = 6
"""The table of gains shows of so many ids, sorted by their gain, the one in the middle. Our choice."""


def settings(records: Records = ()) -> list[Record]:
    """Return the settings of all tables, the curve's first."""
    curve = [
        {"table": "curve", "name": name, "accelerator": chip, "slices": share}
        for name, chip, share in product(CURVE, CHIPS, SHARES)
    ]
    names = Formulation.ONE_SHOT.traits.settings
    return curve + [{"table": "gains", "name": n, "slices": share} for n in names for share in (None, SHARE)]


def measure(run: Record) -> Record:
    """Return a run's setting with latencies in seconds, and the processor seconds that each agent took."""
    if run["table"] == "curve":
        try:
            env = OneShotEnv(
                workload=run["name"],
                accelerator=run["accelerator"],
                slices=run["slices"],
                **as_written(run["accelerator"]),
            )
        except MemPlaceError as error:
            return {**run, "refused": str(error)}
        return {**run, **_problem(env), **_solved(env, "density", memplace_agents.DensityGreedy())}
    traits = Formulation.ONE_SHOT.traits
    settings = {"workload": run["name"], "accelerator": traits.accelerator, **traits.settings[run["name"]]}
    env = OneShotEnv(**settings, slices=run["slices"], **as_written(settings["accelerator"]))
    cheap = _solved(env, "density", memplace_agents.DensityGreedy())
    return {**run, **_problem(env), **cheap, **_solved(env, "exact", memplace_agents.Exact(), time_limit=SECONDS)}


def _problem(env: OneShotEnv) -> Record:
    program = env.task.program
    return {"tensors": program.num_tensors, "native_s": env.problem.native_report.latency_s}


def _solved(env: OneShotEnv, called: str, agent: Agent[Any], **limits: Any) -> Record:
    began = time.process_time()
    solution: Solution = agent.solve(env, budget=10**9, **limits)
    took = time.process_time() - began
    assert solution.report is not None
    found = {"s": solution.report.latency_s, "bound_s": solution.bound_s, "took_s": round(took, 3)}
    return {f"{called}_{key}": value for key, value in found.items()}


def chips(records: Records) -> Iterator[tuple[str, dict[float | None, list[Record]]]]:
    """Yield each chip with the records of the curve by share, of the programs that every share suits."""
    curve = [r for r in records if r["table"] == "curve" and "refused" not in r]
    by_key = {(r["name"], r["accelerator"], r["slices"]): r for r in curve}
    for chip in CHIPS:
        names = [name for name in CURVE if all((name, chip, share) in by_key for share in SHARES)]
        if names:
            yield chip, {share: [by_key[name, chip, share] for name in names] for share in SHARES}


def point(share: float) -> Callable[[Row], str]:
    """Return a cell: geometric means of the gain, and of tensors and seconds over those without slices."""

    def cell(row: Row) -> str:
        pairs = list(zip(row[1][None], row[1][share], strict=True))
        speed = _mean([before["density_s"] / after["density_s"] for before, after in pairs])
        more = _mean([after["tensors"] / before["tensors"] for before, after in pairs])
        longer = _mean([after["density_took_s"] / before["density_took_s"] for before, after in pairs])
        return f"{speed - 1:+.1%}, {more:.1f}, {longer:.1f}"

    return cell


class Pair(NamedTuple):
    """The records of one id without slices and with them."""

    whole: Record
    sliced: Record

    @property
    def gain(self) -> float:
        """Latency of the exact agent's plan without slices over that of the best plan with them."""
        return float(self.whole["exact_s"] / best_s(self.sliced))


def best_s(record: Record) -> float:
    """Return the latency of the better of the exact agent's plan and the one without a search."""
    return float(min(record["exact_s"], record["density_s"]))


def gains(records: Records) -> list[Pair]:
    """Return the ids, largest gain first."""
    found = {(r["name"], r["slices"]): r for r in records if r["table"] == "gains"}
    pairs = [Pair(found[name, None], record) for (name, share), record in found.items() if share is not None]
    return sorted(pairs, key=lambda pair: -pair.gain)


def shown(records: Records) -> list[Pair | list[Pair]]:
    """Return an id in `EVERY`, and all of them for their mean."""
    found = gains(records)
    return [*found[EVERY // 2 :: EVERY], found]


def summary(records: Records) -> str:
    """Return gains and times of all ids."""
    found = gains(records)
    enough = sum(pair.gain >= LEAST for pair in found)
    cheap = _mean([pair.whole["density_s"] / pair.sliced["density_s"] for pair in found])
    times = [pair.sliced["exact_took_s"] / max(pair.whole["exact_took_s"], 0.01) for pair in found]
    return "\n".join(
        [
            f"{enough} of {len(found)} ids gain at least {LEAST - 1:.0%}.",
            f"Density-greedy's plans alone gain {cheap - 1:+.1%} in the mean.",
            f"The exact agent takes {_mean(times):.1f} times as long as without slices in the mean,",
            f"and at most {MOST_TIMES:g} times as long on {sum(time <= MOST_TIMES for time in times)} ids.",
        ]
    )


def of_pair(
    cell: Callable[[Pair], str], of_all: Callable[[list[Pair]], str] = lambda found: ""
) -> Callable[[Row], str]:
    """Return a cell of a pair, and of all of them."""
    return lambda row: cell(row) if isinstance(row, Pair) else of_all(row)


COLUMNS: Final[Columns] = {
    "id": of_pair(lambda pair: pair.whole["name"], lambda found: f"geometric mean of {len(found)}"),
    "tensors": of_pair(lambda pair: f"{pair.whole['tensors']:,} → {pair.sliced['tensors']:,}"),
    "best ms": of_pair(lambda pair: f"{milliseconds(best_s(pair.whole), 4)}{_gap(pair.whole)}"),
    "s": of_pair(lambda pair: f"{pair.whole['exact_took_s']:.1f}"),
    "sliced: best ms": of_pair(lambda pair: f"{milliseconds(best_s(pair.sliced), 4)}{_gap(pair.sliced)}"),
    "s ": of_pair(lambda pair: f"{pair.sliced['exact_took_s']:.1f}"),
    "gain": of_pair(
        lambda pair: f"{pair.gain - 1:+.1%}", lambda found: f"{_mean([pair.gain for pair in found]) - 1:+.1%}"
    ),
}
"""Tensors before and after the cut, and each best plan with the gap to its bound."""


def _gap(record: Record) -> str:
    bound = record["exact_bound_s"]
    return f" ({best_s(record) / bound - 1:.2%})" if bound else ""


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / max(1, len(values)))


def half(record: str, column: Callable[[Record], str]) -> Callable[[Pair], str]:
    """Return a cell of the data file: of the record without slices, or with them."""
    return lambda pair: column(getattr(pair, record))


FILE: Final[Columns] = {
    "tensors": field("tensors"),
    "native ms": field("native_s", ".6f", 1e3),
    "density-greedy ms": field("density_s", ".6f", 1e3),
    "exact ms": field("exact_s", ".6f", 1e3),
    "bound ms": field("exact_bound_s", ".6f", 1e3),
    "s": field("exact_took_s", ".1f"),
}
EXPERIMENTS = [
    Experiment(
        "slices",
        __doc__,
        {
            "docs/model.md#slices-curve": table(
                {
                    "chip": itemgetter(0),
                    "programs": lambda row: len(row[1][None]),
                    **{f"{share:g}": point(share) for share in SHARES if share is not None},
                },
                chips,
            ),
            "docs/model.md#slices": table(COLUMNS, shown, summary),
            "docs/data/slices.csv": data(
                {
                    "id": lambda pair: pair.whole["name"],
                    **{head: half("whole", cell) for head, cell in FILE.items()},
                    **{f"sliced {head}": half("sliced", cell) for head, cell in FILE.items()},
                    "gain": lambda pair: f"{pair.gain:.4f}",
                },
                gains,
            ),
        },
        settings,
        measure,
        key=KEY,
    )
]
