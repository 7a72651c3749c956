"""Plans of one-shot and game solvers, changed: accepted ones run byte by byte, in the time that the simulator gives."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memplace_env.cli.model_flags import ModelFlags
from memplace_env.machine.accelerator import Accelerator, is_shipped, load_accelerator
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.task import Task
from memplace_env.placement.validation import violations
from tests.fuzz import Wrong, accepted
from tests.fuzz.documents import damaged, mutated
from tests.references.reference_plan import can_run
from tests.references.reference_simulator import simulate

NAME = "plans"
CASES = 25_000
SETTINGS = {"batch": 1, "dims": {"sequence": 4}, "dtype": None, "accelerator": "nnp-i", "costs": "roofline"}


class Seed(NamedTuple):
    """A valid plan of a task that is small enough to be run byte by byte."""

    task: Task
    document: Any


def prepare(folder: Path) -> list[Seed]:
    """Return plans of the compiler, of a one-shot search and of players of the game."""
    from memplace_agents import GreedyPlayer, LocalSearch
    from memplace_env.envs.malloc_game import MallocGameEnv
    from memplace_env.envs.one_shot import OneShotEnv

    seeds = []
    for seed in range(4):
        task = _task(seed, "nnp-i", (700, 2_000))
        solved = LocalSearch().solve(OneShotEnv(task), budget=30, seed=seed).plan
        seeds += [Seed(task, _document(plan)) for plan in (native_plan(task), solved)]
        game = MallocGameEnv(_task(seed, "tpu-v4i", (900,)))
        seeds.append(Seed(game.task, _document(GreedyPlayer().solve(game, budget=1, seed=0).plan)))
    return seeds


def case(seeds: list[Seed], rng: np.random.Generator, folder: Path) -> bool:
    """Load, validate and time a plan as `memplace simulate` does."""
    task, document = seeds[rng.integers(len(seeds))]
    path = folder / "plan.json"
    kind = rng.random()
    if kind < 0.45:
        document = _nudged(document, rng)
    elif kind < 0.8:
        document = mutated(document, rng)
    content = json.dumps(document).encode()
    path.write_bytes(content if kind < 0.8 else damaged(content, rng))
    plan = MemoryPlan.load(path)
    flags = ModelFlags().with_defaults_of(plan)
    if not is_shipped(flags.chip):
        raise Wrong(f"a plan names the chip {flags.chip!r}")
    if violations(task, plan):
        return False
    if not can_run(task, plan):
        raise Wrong("a plan that cannot run is called valid")
    with accepted():
        report = evaluate_plan(task, plan)
    if not 0 < report.latency_ps < 2**62 or not math.isfinite(report.energy_j) or report.energy_j < 0:
        raise Wrong(f"a plan takes {report.latency_ps} ps and {report.energy_j} J")
    if simulate(task, plan).latency != report.latency_ps:
        raise Wrong(f"a plan is said to take {report.latency_ps} ps")
    return True


def _task(seed: int, chip: str, capacities: tuple[int, ...]) -> Task:
    return make_task(random_dag(seed, ops=5, dtype=load_accelerator(chip).dtype, largest=400), _small(chip, capacities))


def _small(name: str, capacities: tuple[int, ...]) -> Accelerator:
    """Return a chip whose fast memories have so few bytes."""
    chip = load_accelerator(name)
    fast = [replace(level, capacity_bytes=size) for level, size in zip(chip.levels, capacities, strict=False)]
    return replace(chip, levels=(*fast, chip.levels[-1]))


def _document(plan: MemoryPlan | None) -> Any:
    assert plan is not None
    return json.loads(replace(plan, settings=SETTINGS).to_json())


def _nudged(document: Any, rng: np.random.Generator) -> Any:
    """Return the plan with small changes of rows and uses, a row lost or doubled: it may still be valid."""
    document = json.loads(json.dumps(document))
    for _ in range(rng.integers(1, 4)):
        rows = document[("allocations", "transfers", "use_level")[rng.integers(3)]]
        if not rows:
            continue
        at, kind = int(rng.integers(len(rows))), rng.random()
        if kind < 0.1:
            del rows[at]
        elif kind < 0.2:
            rows.append(rows[at] if isinstance(rows[at], int) else dict(rows[at]))
        elif isinstance(rows[at], int):
            rows[at] += int(rng.integers(-1, 2))
        else:
            column = list(rows[at])[rng.integers(5)]
            rows[at][column] += int(rng.choice([-64, -8, -1, 1, 8, 64]) if column == "offset" else rng.choice([-1, 1]))
    return document
