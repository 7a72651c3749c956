"""The worth of decisions about a model: fusion, results in place, order, slices, tensors that move, more memory."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from memplace_agents.exact import Exact, ExactDynamic
from memplace_agents.exact.order.freedom import in_order
from memplace_agents.exact.order.order_search import find_order
from memplace_agents.optimality import OPTIMAL_GAP
from memplace_agents.solution import Solution
from memplace_env._lib.errors import AgentError, MemPlaceError
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.machine.accelerator import Accelerator, load_accelerator
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.task import Task
from memplace_env.placement.workloads import is_built
from memplace_env.report.quantities import size

WORK, MOVES_WORK, ORDER_WORK = 5.0, 10.0, 0.2
"""Most work of a proof in one order, see `Exact`, and of the search for tensors that move; share of the work of
`find_order`. Our choice: a minute or two for all rows on ResNet-50 and BERT."""
SHARE: Final = 0.1
"""Slices: largest share of the fastest memory that a tensor takes whole."""


class Advice(NamedTuple):
    """A row of advice.

    Attributes:
        decision: what is decided otherwise than in the first row, in a few words.
        flags: the flags that decide it; empty where no flag does.
        latency_s: seconds of the best plan that was found.
        bound_s: seconds that no plan beats which decides the same; of a free order, in any order.
        proven: whether nothing faster exists, to 1e-4.
        peak_bytes: most bytes of results alive at once.
        seconds: time that the search took.
    """

    decision: str
    flags: str
    latency_s: float
    bound_s: float | None
    proven: bool
    peak_bytes: int
    seconds: float


def advise(
    workload: str | os.PathLike[str], accelerator: str | Path | Accelerator = "nnp-i", **options: Any
) -> Iterator[Advice]:
    """Yield a row for the model as it is, then one for each decision that is not made already.

    A decision that the model does not admit is left out.

    Args:
        workload: see `resolve_task`.
        accelerator: see `resolve_task`.
        options: further arguments of `resolve_task`.

    Raises:
        MemPlaceError: the model cannot be planned as it is.
    """
    chip = load_accelerator(accelerator)

    def task(**more: Any) -> Task:
        return resolve_task(workload, more.pop("chip", accelerator), **{**options, **more})

    plain = task()
    yield _row("as it is", "", plain)
    settings = {"fusion": chip.fusion, "in_place": "none", **plain.settings}
    changes: list[tuple[str, str, dict[str, Any]]] = []
    if not is_built(workload):
        changes += [("fusion", "--fusion epilogue", {"fusion": "epilogue"})] * (settings["fusion"] != "epilogue")
        changes += [("results in place", "--in-place rows", {"in_place": "rows"})] * (settings["in_place"] != "rows")
    changes += [("slices", f"--slices {SHARE}", {"slices": SHARE})] * ("slices" not in plain.settings)
    together = " ".join(flags for _, flags, _ in changes)
    if len(changes) > 1:
        changes.append(
            ("all of these", together, {name: value for _, _, each in changes for name, value in each.items()})
        )
    for decision, flags, more in changes:
        with suppress(MemPlaceError):  # the model does not admit it
            yield _row(decision, flags, task(**more))
    if not {"slices", "order"} & plain.settings.keys():
        with suppress(AgentError):  # of costs or ops whose orders nobody searches
            yield _ordered(plain)
    began = time.perf_counter()
    agent = ExactDynamic(tie_break="none", work=MOVES_WORK)
    agent.checks = False
    moving = agent.solve(OneShotEnv(plain))
    yield _advice(
        "tensors that move",
        "--formulation dynamic",
        moving,
        moving.bound_s,
        moving.outcome == "optimal",
        _peak(plain),
        began,
    )
    larger = _with_more(chip)
    if larger is not None:
        fastest = larger.levels[0]
        yield _row(f"{fastest.name} of {size(fastest.capacity_bytes)}", "", task(chip=larger))


def _with_more(chip: Accelerator) -> Accelerator | None:
    """Return the chip with twice the fastest memory; None if that is as much as the next one has."""
    fastest, *others = chip.levels
    twice = replace(fastest, capacity_bytes=2 * fastest.capacity_bytes)
    if twice.capacity_bytes >= others[0].capacity_bytes:
        return None
    return replace(chip, levels=(twice, *others))


def _row(decision: str, flags: str, task: Task) -> Advice:
    began = time.perf_counter()
    agent = Exact(tie_break="none", work=WORK)
    agent.checks = False
    solution = agent.solve(OneShotEnv(task))
    return _advice(decision, flags, solution, solution.bound_s, solution.outcome == "optimal", _peak(task), began)


def _ordered(task: Task) -> Advice:
    began = time.perf_counter()
    found = find_order(task, work=ORDER_WORK)
    assert found.solution.report is not None
    proven = found.solution.report.latency_s <= found.bound_s * (1 + OPTIMAL_GAP)
    peak = _peak(task) if found.order is None else _peak(in_order(task, found.order))
    return _advice("order of ops", "--order free", found.solution, found.bound_s, proven, peak, began)


def _peak(task: Task) -> int:
    return int(task.program.live_bytes_in_place.max())


def _advice(
    decision: str, flags: str, found: Solution, bound_s: float | None, proven: bool, peak: int, began: float
) -> Advice:
    assert found.report is not None
    return Advice(decision, flags, found.report.latency_s, bound_s, proven, peak, time.perf_counter() - began)


def gain(row: Advice, first: Advice) -> float:
    """Return by how much a row is faster than the first: old / new latency - 1."""
    return first.latency_s / row.latency_s - 1


def to_json(rows: list[Advice]) -> list[Mapping[str, Any]]:
    """Return plain JSON values, times in seconds, sizes in bytes."""
    return [{**row._asdict(), "gain": gain(row, rows[0])} for row in rows]
