"""Descriptions of chips, changed field by field to extremes: every accepted one gives possible times."""

from __future__ import annotations

import json
import math
import tomllib
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memplace_agents.solution import Solution
from memplace_env.machine.accelerator import Accelerator, accelerator_names, load_accelerator
from memplace_env.machine.accelerator.load import find
from memplace_env.machine.costs import op_key
from memplace_env.placement.compiler import native_report
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import Report, evaluate_plan
from memplace_env.placement.synthetic import matmul_program, random_dag
from memplace_env.placement.task import Task, streamed
from memplace_env.program.program import Program
from tests.fuzz import Wrong, accepted
from tests.fuzz.documents import damaged, document_to_toml, mutated

NAME = "chips"
CASES = 15_000
EXTREMES = (0, 1, 2, 3, 1e-18, 1e-9, 0.001, 0.5, 1, 10**6, 10**12, 10**15, 10**17, 10**18 - 1, 10**18, 1024, 4096)


class Seeds(NamedTuple):
    """Shipped descriptions, and programs of each dtype."""

    documents: list[dict[str, Any]]
    texts: list[bytes]
    programs: dict[str, list[Program]]


def prepare(folder: Path) -> Seeds:
    """Return all shipped chips and one with measured times, and a random and a blocked program for each dtype."""
    texts = [find(name).read_bytes() for name in accelerator_names()]
    programs = {
        dtype: [random_dag(1, ops=6, dtype=dtype, largest=10**5), matmul_program("strassen", 64, dtype)]
        for dtype in ("int8", "float16", "bfloat16", "float32")
    }
    documents = [tomllib.loads(text.decode()) for text in texts]
    measured = _measured(documents[0], programs)
    texts.append(document_to_toml(measured).encode())
    return Seeds([*documents, measured], texts, programs)


def _measured(document: dict[str, Any], programs: dict[str, list[Program]]) -> dict[str, Any]:
    """Return a chip in the form that calibrating a device writes."""
    mine = programs[document["dtype"]]
    keys = {op_key(program, op) for program in mine for op in range(program.num_ops)}
    times = {key: 1000 * (place + 1) for place, key in enumerate(sorted(keys))}
    return {**document, "cost_model": "measured", "measured": {"copy_latency_ns": 1500.5, "op_ns": times}}


def case(seeds: Seeds, rng: np.random.Generator, folder: Path) -> bool:
    """Load a chip; place programs on it by rule, by density and by a game."""
    which, kind = rng.integers(len(seeds.documents)), rng.random()
    if kind < 0.15:
        content = damaged(seeds.texts[which], rng)
    else:
        document = json.loads(json.dumps(seeds.documents[which]))
        document = _stretched(document, rng) if kind < 0.7 else mutated(document, rng)
        content = document_to_toml(document).encode(errors="ignore")
    path = folder / "chip.toml"
    path.write_bytes(content)
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        chip = load_accelerator(path)
        program = seeds.programs[chip.dtype][rng.integers(2)]
        if rng.random() < 0.1:
            from memplace_env.placement.synthetic import planted

            program = planted("diamond", ops=6, seed=1, accelerator=chip).program
        _place(program, chip)
    return True


def _place(program: Program, chip: Accelerator) -> None:
    from memplace_agents import DensityGreedy, GreedyPlayer
    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv

    task = make_task(program, chip)
    native_report(task)  # refused where results must lie in fast memories, and find no place there
    with accepted():
        _check(task, native_report(task))
        _check(task, _judged(task, DensityGreedy().solve(OneShotEnv(task), budget=3, seed=0)))
        if chip.num_levels == 2 and not task.must_leave.any():
            task = streamed(task)
            _check(task, _judged(task, GreedyPlayer().solve(MallocGameEnv(task), budget=1, seed=0)))


def _judged(task: Task, solution: Solution) -> Report:
    if solution.plan is None:
        raise Wrong("no plan was found")
    return evaluate_plan(task, solution.plan)


def _check(task: Task, report: Report) -> None:
    if not 0 < report.latency_ps < 2**62 or report.traffic_bound_ps > report.latency_ps:
        raise Wrong(f"{report.latency_ps} ps, bound {report.traffic_bound_ps} ps")
    if not math.isfinite(report.energy_j) or report.energy_j < 0:
        raise Wrong(f"{report.energy_j} J")
    arrays = report.op_time_ps, report.stall_ps, report.port_ps, report.bytes_moved, report.peak_bytes
    if min(array.min(initial=0) for array in arrays) < 0:
        raise Wrong("something negative in the report")
    json.dumps(report.summary(), allow_nan=False)


def _stretched(document: Any, rng: np.random.Generator) -> Any:
    """Set one to five numbers to extremes; half the time slower memories follow, so that more is accepted."""
    for _ in range(rng.integers(1, 6)):
        tables = [document["compute"], *document["compute"].values(), *document["memory"], document.get("tiling", {})]
        tables += [level.get("access", {}) for level in document["memory"]] + [document.get("dma", {})]
        tables = [each for each in tables if isinstance(each, dict)]
        table = tables[rng.integers(len(tables))]
        keys = [key for key, value in table.items() if type(value) in (int, float, list)]
        if keys:
            key = keys[rng.integers(len(keys))]
            value = EXTREMES[rng.integers(len(EXTREMES))]
            if isinstance(table[key], list):
                table[key] = [[value] * len(row) if isinstance(row, list) else value for row in table[key]]
            else:
                table[key] = value
    if rng.random() < 0.5:
        levels = document["memory"]
        levels.sort(key=lambda level: level["capacity_bytes"])
        for fast, slow in pairwise(levels):
            slow["read_bytes_per_s"] = min(slow["read_bytes_per_s"], fast["read_bytes_per_s"])
            slow["capacity_bytes"] = max(slow["capacity_bytes"], fast["capacity_bytes"] + 1)
    return document
