"""What planning is worth on models that public packages ship, each on two chips.

Models, packages and digests are in `benchmarks/data/shipped.csv`. The chips follow from the size of the file, a rule that
was written before anything was measured: up to `SMALL` bytes a model is for microcontrollers, see `CHIPS`. Each chip has
its defaults, also for results in place. Gains are native's latency over that of the best plan, minus 1, where native is
the chip's default without any of the decisions; a decision counts only if its plan is the better one. Work ends at that
of `memplace advise`, so that the plans are the same on every machine; seconds are processor seconds of one core. What
fails has a row with the reason.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from benchmarks.harness import Columns, Experiment, Records, Row, data, table
from benchmarks.ledger import Record
from benchmarks.shipped_files import NotThereError, Shipped, file_of, table_of
from memplace_agents import Exact
from memplace_agents.advice import ORDER_WORK, SHARE, WORK
from memplace_agents.exact.order.order_search import find_order
from memplace_agents.optimality import OPTIMAL_GAP
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
DECISIONS: Final = {"in place": {"in_place": "rows"}, "order": {}, "slices": {"slices": SHARE}}
MOST_OPS: Final = 2_000
"""Most ops of a program for which decisions beyond placement are measured, so that no row takes more than a minute or
so."""
MOST_MACS: Final = 2e10
"""Most multiply-accumulates of a plan that is executed."""
LITTLE: Final = 0.02
"""The page shows models that gain more than this on one of the chips; `LITTLE` was chosen before measuring."""


@cache
def models() -> dict[str, Shipped]:
    """Return the table's models by name."""
    return {model.name: model for model in table_of()}


def settings(records: Records = ()) -> list[Record]:
    """Return every model on each of its two chips."""
    return [{"name": model.name, "chip": chip} for model in models().values() for chip in CHIPS[model.bytes <= SMALL]]


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


def _solved(task: Task) -> tuple[Solution, Record]:
    began, agent = time.process_time(), Exact(tie_break="none", work=WORK)
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
    if path.endswith(".tflite"):
        return "not for TFLite"
    if task.program.macs.sum() > MOST_MACS:
        return f"more than {MOST_MACS:.0e} MACs"
    from memplace_env.backends.ort import Executor

    assert solution.plan is not None
    try:
        return Executor(task).run(solution.plan, inferences=1).right
    except MemPlaceError as error:
        return str(error).replace(path, "the file")


EXPERIMENTS = [Experiment("shipped", __doc__, {}, settings, measure, key=("name", "chip"))]
