"""Gain of results in place, of another order of ops, and of both, also with slices, over the best plans without.

Every id `MemPlace-<name>-v0` under each choice of `CHOICES`. The exact agent's work ends at `WORK`, that of the search
for an order as `find_order` says, so that the plans are the same on every machine. Results in place are those of
element-wise and row-wise ops, slices at most `SHARE` of the fastest memory. Seconds are processor seconds of one core.
A plan with results in place is executed in its own arena if the model fits `MOST_MACS`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from benchmarks.harness import Columns, Experiment, Records, Row, data, milliseconds, table
from benchmarks.ledger import Record
from memplace_agents import Exact
from memplace_agents.exact.order.order_search import find_order
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import GAME, Formulation
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.program.model_file import as_written

SHARE: Final = 0.1
WORK: Final = 20.0
CHOICES: Final[dict[str, dict[str, Any]]] = {
    "as it is": {},
    "in place": {"in_place": "rows"},
    "slices in place": {"in_place": "rows", "slices": SHARE},
    "order": {"free": True},
    "order in place": {"free": True, "in_place": "rows"},
}
GAMES: Final = 9
"""One in so many games, in the order in which they are registered, is measured: twelve. Our choice."""
GAME_WORK: Final = 30.0
"""Most work of the exact agent in a game."""
MOST_MACS: Final = 2e10
EVERY: Final = 6
"""The page shows of so many ids, sorted by their gain in place, the one in the middle. Our choice."""


def settings(records: Records = ()) -> list[Record]:
    """Return every choice of every id."""
    return [{"name": name, "choice": choice} for choice in CHOICES for name in Formulation.ONE_SHOT.traits.settings]


def measure(run: Record) -> Record:
    """Return the run's setting with the plan's latency, its bound, and the processor seconds of the search."""
    traits, choice = Formulation.ONE_SHOT.traits, dict(CHOICES[run["choice"]])
    free = choice.pop("free", False)
    setting = {"workload": run["name"], "accelerator": traits.accelerator, **traits.settings[run["name"]]}
    task = resolve_task(**{**as_written(setting["accelerator"]), **setting, **choice})
    began = time.process_time()
    if free:
        found = find_order(task)
        solution, bound_s = found.solution, found.bound_s
    else:
        agent = Exact(tie_break="none", work=WORK)
        agent.checks = False
        solution = agent.solve(OneShotEnv(task))
        bound_s = solution.bound_s
    took = time.process_time() - began
    assert solution.report is not None
    assert solution.plan is not None
    executed = None
    if run["choice"] == "in place" and task.program.macs.sum() <= MOST_MACS:
        from memplace_env.backends.ort import Executor

        executed = Executor(task).run(solution.plan, inferences=1).right
    return {
        **run,
        "s": solution.report.latency_s,
        "bound_s": bound_s,
        "took_s": round(took, 3),
        "pairs": len(task.program.handovers),
        "executed": executed,
    }


def game_settings(records: Records = ()) -> list[Record]:
    """Return one game in `GAMES`, with and without results in place."""
    return [{"name": name, "choice": choice} for name in [*GAME][::GAMES] for choice in ("as it is", "in place")]


def measure_game(run: Record) -> Record:
    """Return the run's setting with the latency of the best play, its bound, and the seconds of the search."""
    traits = Formulation.GAME.traits
    setting = {"workload": run["name"], "accelerator": traits.accelerator, **traits.settings[run["name"]]}
    env = MallocGameEnv(**{**as_written(setting["accelerator"]), **setting, **CHOICES[run["choice"]]})
    agent, began = Exact(tie_break="none", work=GAME_WORK), time.process_time()
    agent.checks = False
    solution = agent.solve(env, budget=10**9)
    assert solution.report is not None
    return {
        **run,
        "s": solution.report.latency_s,
        "bound_s": solution.bound_s,
        "took_s": round(time.process_time() - began, 3),
        "pairs": len(env.task.program.handovers),
    }


def ids(records: Records) -> list[dict[str, Record]]:
    """Return the records of each id by choice, largest gain in place first."""
    found: dict[str, dict[str, Record]] = {}
    for record in records:
        found.setdefault(record["name"], {})[record["choice"]] = record
    both = [each for each in found.values() if each.keys() >= {"as it is", "in place"}]
    return sorted(both, key=lambda each: -gain(each, "in place"))


def measured(found: Sequence[dict[str, Record]]) -> list[str]:
    """Return the choices that are measured on all ids."""
    return [choice for choice in CHOICES if all(choice in each for each in found)]


def gain(each: dict[str, Record], choice: str) -> float:
    """Return old / new latency - 1, where the new plan is the better of the choice's and the one without it."""
    plain = each["as it is"]["s"]
    return float(plain / min(plain, each[choice]["s"]) - 1)


def shown(records: Records) -> list[Row]:
    """Return an id in `EVERY`, and all of them for their mean."""
    found = ids(records)
    return [*found[EVERY // 2 :: EVERY], found]


def cell(choice: str) -> Callable[[Row], str]:
    """Return a cell: the gain of an id with, in brackets, the gap to the bound; the geometric mean of all ids."""

    def text(row: Row) -> str:
        if isinstance(row, list):
            return f"{math.prod(1 + gain(each, choice) for each in row) ** (1 / max(1, len(row))) - 1:+.1%}"
        record = row[choice]
        return f"{gain(row, choice):+.1%} ({max(record['s'] / record['bound_s'] - 1, 0):.2%})"

    return text


def summary(records: Records) -> str:
    """Return how many ids gain, are proven, and ran right."""
    found = ids(records)
    lines = []
    for choice in measured(found)[1:]:
        gains = sorted((gain(each, choice) for each in found), reverse=True)
        near = sum(each[choice]["s"] <= 1.001 * each[choice]["bound_s"] for each in found)
        most = [sum(value >= least for value in gains) for least in (0.01, 0.1)]
        lines.append(
            f"- {choice}: {most[0]} of {len(found)} ids gain 1 % or more, {most[1]} gain 10 %; median "
            f"{_median(gains):.1%}; {near} are within 0.1 % of the bound."
        )
    times = [sum(each[choice]["took_s"] for each in found) for choice in ("as it is", "in place")]
    executed = [each["in place"]["executed"] for each in found if each["in place"]["executed"] is not None]
    lines.append(
        f"- Searching all ids takes {times[0]:.0f} s without and {times[1]:.0f} s with results in place. Of the plans "
        f"with results in place {len(executed)} were executed, {sum(executed)} of them right."
    )
    return "\n".join(lines)


def _median(values: Sequence[float]) -> float:
    return values[len(values) // 2] if values else 0.0


def columns(rows: list[Row]) -> Columns:
    """Return the columns of the page."""
    choices = measured(rows[-1])[1:]
    return {
        "id": lambda row: f"geometric mean of {len(row)}" if isinstance(row, list) else row["as it is"]["name"],
        "best ms": lambda row: "" if isinstance(row, list) else milliseconds(row["as it is"]["s"], 4),
        **{choice: cell(choice) for choice in choices},
    }


def file_columns(rows: list[Row]) -> Columns:
    """Return the columns of the data file."""

    def value(choice: str, name: str) -> Callable[[Row], object]:
        return lambda row: row[choice][name]

    names = ("s", "bound_s", "took_s", "executed")
    every = {f"{choice} {name}": value(choice, name) for choice in measured(rows) for name in names}
    return {"id": lambda row: row["as it is"]["name"], **every}


GAME_COLUMNS: Columns = {
    "game": lambda row: f"geometric mean of {len(row)}" if isinstance(row, list) else row["as it is"]["name"],
    "pairs": lambda row: "" if isinstance(row, list) else row["in place"]["pairs"],
    "best ms": lambda row: "" if isinstance(row, list) else milliseconds(row["as it is"]["s"], 4),
    "above bound": lambda row: (
        "" if isinstance(row, list) else f"{row['as it is']['s'] / row['as it is']['bound_s'] - 1:.2%}"
    ),
    "in place": cell("in place"),
}
EXPERIMENTS = [
    Experiment(
        "decisions-games",
        "Gain of results in place in games, by the exact agent until it has done `GAME_WORK`: a plan of any kind.",
        {"docs/model.md#decisions-games": table(GAME_COLUMNS, lambda records: [*ids(records), ids(records)])},
        game_settings,
        measure_game,
        key=("name", "choice"),
    ),
    Experiment(
        "decisions",
        __doc__,
        {
            "docs/model.md#decisions": table(columns, shown, summary),
            "docs/data/decisions.csv": data(file_columns, ids),
        },
        settings,
        measure,
        key=("name", "choice"),
    ),
]
