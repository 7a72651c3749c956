"""Measure the event simulator for `benchmarks.speed`: milliseconds of a plan, and plans/s of a batch.

python -m benchmarks.event_speed
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import EventSimulator

SETTINGS: dict[str, dict[str, Any]] = {
    "BERT nnp-i": {"dtype": "float16", "batch": 16, "dims": {"sequence": 128}},
    "BERT intel-npu-4000": {"dtype": "int8", "batch": 1, "dims": {"sequence": 128}},
    "ResNet50 nnp-i": {"dtype": "float16", "batch": 2},
    "ResNet50 intel-npu-4000": {"dtype": "int8", "batch": 1},
}
"""Arguments of `resolve_task` by workload and chip."""
CEILING_MS = {"BERT": 1.0, "ResNet50": 0.1}
"""Most milliseconds of one core for a plan, tables and report included, by workload; our choice."""
BATCH = 256


def milliseconds(setting: str) -> float:
    """Return processor milliseconds of one core for the native plan of a setting, tables and report included."""
    simulator, where, plan = _subject(setting)
    return _least(lambda: simulator.run(*where, plan), 50, time.process_time) * 1e3


def plans_per_s(setting: str) -> float:
    """Return plans/s of `run_batch` on all cores."""
    simulator, where, plan = _subject(setting)
    return BATCH / _least(lambda: simulator.run_batch(*where, [plan] * BATCH), 1, time.perf_counter)


def figures() -> dict[str, Any]:
    """Return all figures by name."""
    return {
        "event_ms_per_plan": {setting: round(milliseconds(setting), 3) for setting in SETTINGS},
        "event_ms_ceiling": CEILING_MS,
        "event_batch_plans_per_s": {setting: round(plans_per_s(setting)) for setting in SETTINGS},
    }


def _subject(setting: str) -> tuple[EventSimulator, tuple[Any, Any], Any]:
    workload, chip = setting.split()
    task = resolve_task(workload, chip, **SETTINGS[setting])
    return EventSimulator(), (task.program, task.accelerator), native_plan(task)


def _least(run: Callable[[], Any], calls: int, clock: Callable[[], float]) -> float:
    """Return the least seconds of a call in five rounds, after one to warm up."""
    run()
    rounds = []
    for _ in range(5):
        begin = clock()
        for _ in range(calls):
            run()
        rounds.append((clock() - begin) / calls)
    return min(rounds)


if __name__ == "__main__":
    print(json.dumps(figures(), indent=2))
