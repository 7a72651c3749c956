"""Gains of planning on models that public packages ship, each on two chips.

Models, packages and digests are in `benchmarks/data/shipped.csv`. The chips follow from the size of the file by a rule
that was written before anything was measured: up to `SMALL` bytes a model is for microcontrollers, see `CHIPS`. A chip
has its defaults, also for results in place. A gain is native's latency over that of the best plan, minus 1; native is
that of the chip's defaults. A decision counts only if its plan is the better one. Work ends where that of `memplace
advise` does, so that the plans are the same on every machine. Seconds are processor seconds of one core. A failure is a
row with its reason.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from statistics import median
from typing import Any, Final

from benchmarks.experiments import tflite_arenas
from benchmarks.harness import MOST_ROWS, Columns, Experiment, Records, Row, data, field, table
from benchmarks.ledger import Record
from benchmarks.shipped_files import NotThereError, Shipped, file_of, table_of
from memplace_agents import BestRule, Exact
from memplace_agents.advice import ORDER_WORK, SHARE, WORK
from memplace_agents.exact.order.order_search import find_order
from memplace_agents.optimality import OPTIMAL_GAP
from memplace_agents.search.agent import Agent
from memplace_agents.solution import Solution
from memplace_env._lib.errors import MemPlaceError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.compiler import native_report
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.task import Task

SMALL: Final = 1_000_000
"""Most bytes of the file of a model for microcontrollers."""
CHIPS: Final = {True: ("ethos-u55-256", "stm32n6"), False: ("nnp-i", "ethos-u65-512")}
"""The two chips of a model by whether it is for microcontrollers."""
DECISIONS: Final[dict[str, dict[str, Any]]] = {
    "in place": {"in_place": "rows"},
    "order": {},
    "slices": {"slices": SHARE},
}
CHOICES: Final = ("best rule", "placement", *DECISIONS)
MOST_OPS: Final = 2_000
"""Most ops of a program that is planned with decisions beside placement: no row takes much more than a minute."""
MOST_MACS: Final = 2e10
"""Most multiply-accumulates of a plan that is executed."""
MODELS: Final = 24
"""Models of README's table."""
ARM: Final = "ethos-u"
"""Prefix of the names of its chips."""
SHOWN: Final = 0.05
"""The page counts models that gain as much by any choice on one of their chips. Our choice."""


@cache
def models() -> dict[str, Shipped]:
    """Return the table's models by name."""
    return {model.name: model for model in table_of()}


def settings(records: Records = ()) -> list[Record]:
    """Return every model on each of its two chips."""
    return [
        {"name": model.name, "chip": chip, "options": model.options}
        for model in models().values()
        for chip in CHIPS[model.bytes <= SMALL]
    ]


def measure(run: Record) -> Record:
    """Return what `planned` says of the run's model, or why it says nothing."""
    began = time.process_time()
    try:
        path = file_of(models()[run["name"]])
    except NotThereError as error:
        return {**run, "missing": str(error)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = planned(str(path), run["chip"], models()[run["name"]].arguments())
    except Exception as error:  # a row names what fails
        found = {"failed": f"{type(error).__name__}: {error}".replace(str(path), path.name)}
    return {**run, **found, "took_s": round(time.process_time() - began, 1)}


def planned(path: str, chip: str, arguments: dict[str, Any]) -> Record:
    """Return the facts of a model's plans on a chip.

    Args:
        path: the model's file.
        chip: name of the chip.
        arguments: of `resolve_task`.
    """
    task = resolve_task(path, chip, **arguments)
    record: Record = {"ops": task.program.num_ops, "peak": int(task.program.live_bytes_in_place.max())}
    record["native_s"] = native_report(task).latency_s
    record["best rule"] = _solved(task, BestRule())[1]
    solution, record["placement"] = _solved(task)
    record["executed"] = _executed(task, solution, path)
    for name, more in DECISIONS.items():
        if task.program.num_ops > MOST_OPS:
            record[name] = {"left": f"more than {MOST_OPS:,} ops"}
            continue
        try:
            if name == "order":
                record[name] = _ordered(task)
            else:
                other = resolve_task(path, chip, **{**arguments, **more})
                record[name] = _solved(other)[1]
        except MemPlaceError as error:
            record[name] = {"left": str(error).replace(path, "the file")}
    return record


def _solved(task: Task, agent: Agent[Any] | None = None) -> tuple[Solution, Record]:
    """Return the exact agent's solution, or another one's, and its facts."""
    began, agent = time.process_time(), agent or Exact(tie_break="none", work=WORK)
    agent.checks = False
    solution = agent.solve(OneShotEnv(task))
    return solution, _facts(solution, solution.bound_s, solution.outcome == "optimal", began)


def _ordered(task: Task) -> Record:
    began, found = time.process_time(), find_order(task, work=ORDER_WORK)
    assert found.solution.report is not None
    proven = found.solution.report.latency_s <= found.bound_s * (1 + OPTIMAL_GAP)
    return _facts(found.solution, found.bound_s, proven, began)


def _facts(solution: Solution, bound_s: float | None, proven: bool, began: float) -> Record:
    assert solution.report is not None
    took_s = round(time.process_time() - began, 2)
    return {"s": solution.report.latency_s, "bound_s": bound_s, "proven": proven, "took_s": took_s}


def _executed(task: Task, solution: Solution, path: str) -> bool | str:
    """Return whether the plan gives the model's results when it runs, or why it was not run."""
    if task.program.macs.sum() > MOST_MACS:
        return f"more than {MOST_MACS:.0e} MACs"
    from memplace_env.backends.ort import Executor

    assert solution.plan is not None
    try:
        return Executor(task).run(solution.plan, inferences=1).right
    except MemPlaceError as error:
        return str(error).replace(path, "the file")


def gain(record: Record, choice: str) -> float:
    """Return native's latency over that of a choice's plan, minus 1; of a decision or placement, the better plan."""
    plans = {"placement", choice} if choice in DECISIONS else {choice}
    return float(record["native_s"] / min(record[plan]["s"] for plan in plans if "s" in record[plan]) - 1)


def by_chip(records: Records) -> list[Row]:
    """Return name, records and those with plans of each chip, and of all."""
    chips = {chip: [record for record in records if record["chip"] == chip] for pair in CHIPS.values() for chip in pair}
    every = {**chips, "all": list(records)}
    return [(chip, found, [record for record in found if "ops" in record]) for chip, found in every.items()]


def gainers(records: Records) -> list[Row]:
    """Return the records that gain `SHOWN` by any choice, and those without a plan, largest gain first."""
    most = [(max(gain(record, choice) for choice in CHOICES) if "ops" in record else math.inf) for record in records]
    order = sorted(range(len(most)), key=lambda number: -most[number])
    return [records[number] for number in order if most[number] >= SHOWN]


def worth(records: Records) -> list[Record]:
    """Return the records of README's table, largest gain first: the first `MODELS` names by SHA-256, on `ARM`'s chips.

    All gains were known, so the rule chooses by nothing else; the chips are those that are compared with a compiler.
    """
    names = sorted({record["name"] for record in records}, key=lambda name: sha256(name.encode()).hexdigest())[:MODELS]
    chosen = [one for one in records if one["name"] in names and one["chip"].startswith(ARM) and "ops" in one]
    return sorted(chosen, key=lambda record: -max(gain(record, choice) for choice in CHOICES))


def worth_medians(records: Records) -> str:
    """Return the chips and the medians of README's table."""
    medians = (f"{median([gain(record, choice) for record in worth(records)] or [0.0]):.1%}" for choice in CHOICES)
    (small,), (large,) = ([chip for chip in CHIPS[kind] if chip.startswith(ARM)] for kind in (True, False))
    return f"On {large}, with * on {small}. Medians: {', '.join(medians)}."


@cache
def _arenas() -> dict[str, str]:
    records = tflite_arenas.EXPERIMENTS[0].recorded()
    return {
        record["file"]: tflite_arenas.gain(record) for record in records if record["source"] not in tflite_arenas.OURS
    }


def below(records: Records) -> str:
    """Return how many rows gain `SHOWN`."""
    return f"Of {len(records)} rows {len(gainers(records))} gain {SHOWN:.0%} or more by any of these."


def _above(record: Record) -> float:
    return max(float(record["placement"]["s"] / record["placement"]["bound_s"] - 1), 0.0)


def _share(choice: str) -> Callable[[Row], str]:
    """Return a cell: the median gain of a chip's models, and how many gain `SHOWN`."""

    def text(row: Row) -> str:
        gains = [gain(record, choice) for record in row[2]]
        return f"{median(gains or [0.0]):.1%}, {sum(each >= SHOWN for each in gains)}"

    return text


def _gain(choice: str) -> Callable[[Record], str]:
    return lambda record: f"{gain(record, choice):.1%}" if "s" in record.get(choice, {}) else "-"


def _reason(record: Record) -> str:
    return str(record.get("missing") or record.get("failed") or "")


def _runs(row: Row) -> str:
    ran = [record["executed"] for record in row[2] if isinstance(record["executed"], bool)]
    return f"{sum(ran)} of {len(ran)}"


def _fact(choice: str, name: str) -> Callable[[Row], object]:
    return lambda record: record.get(choice, {}).get(name, "")


CHIP_COLUMNS: Columns = {
    "chip": lambda row: row[0],
    "planned": lambda row: f"{len(row[2])} of {len(row[1])}",
    **{choice: _share(choice) for choice in CHOICES},
    "above bound": lambda row: f"{median([_above(record) for record in row[2]] or [0]):.1%}",
    "proven": lambda row: sum(record["placement"]["proven"] for record in row[2]),
    "ran right": _runs,
    "seconds": lambda row: f"{median([record['took_s'] for record in row[2]] or [0]):.1f}",
}
WORTH_COLUMNS: Columns = {
    "model": lambda record: record["name"] + " *" * (record["chip"] == CHIPS[True][0]),
    "best rule": _gain("best rule"),
    "placement": _gain("placement"),
    **{f"+ {choice}": _gain(choice) for choice in DECISIONS},
    "proven": lambda record: "yes" if record["placement"]["proven"] else f"to {_above(record):.1%}",
    "s": lambda record: f"{record['placement']['took_s']:.1f}",
    "arena": lambda record: _arenas().get(record["name"], ""),
}
"""The columns of README's table."""
MODEL_COLUMNS: Columns = {
    "model": lambda record: record["name"],
    "chip": lambda record: record["chip"],
    "ops": lambda record: record.get("ops") or _reason(record),
    **{choice: _gain(choice) for choice in CHOICES},
    "above bound": lambda record: f"{_above(record):.1%}" if "ops" in record else "",
    "ran": lambda record: {True: "right", False: "wrong"}.get(record.get("executed"), "-"),
}
FILE_COLUMNS: Columns = {
    "model": lambda record: record["name"],
    "package": lambda record: models()[record["name"]].source,
    "chip": lambda record: record["chip"],
    "why not": _reason,
    **{name: field(name) for name in ("ops", "peak", "native_s", "executed", "took_s")},
    **{f"{choice} {name}": _fact(choice, name) for choice in CHOICES for name in ("s", "bound_s", "proven", "left")},
}
EXPERIMENTS = [
    Experiment(
        "shipped",
        __doc__,
        {
            "README.md#shipped": table(WORTH_COLUMNS, worth, worth_medians),
            "docs/model.md#shipped": table(CHIP_COLUMNS, by_chip),
            "docs/model.md#shipped-models": table(MODEL_COLUMNS, lambda found: gainers(found)[:MOST_ROWS], below),
            "docs/data/shipped.csv": data(FILE_COLUMNS),
        },
        settings,
        measure,
        key=("name", "chip", "options"),
        finished=lambda record: "missing" not in record,
    )
]
