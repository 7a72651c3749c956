"""A device as a `Simulator`: latencies of plans are measured."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from memplace_env._lib.errors import ExecutionError
from memplace_env._lib.units import PS_PER_S
from memplace_env.backends.cuda.bench import RUNS, Bench, Timing
from memplace_env.backends.cuda.cuda import open_cuda, require_cuda
from memplace_env.backends.cuda.device_protocol import Device
from memplace_env.machine.accelerator import Accelerator
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator.builtin import time_plan
from memplace_env.placement.simulator_report import Report
from memplace_env.placement.task import Task
from memplace_env.program.model_file import as_written
from memplace_env.program.program import Program


class DeviceSimulator:
    """Runs each plan on a device and reports the median time.

    The entry point `cuda` of the group `memplace.simulators`, so `gym.make(..., simulator="cuda")` and
    `--simulator cuda` mean the first GPU. As it is noisy, agents measure candidates again.

    Args:
        open_device: returns the device; called with the first plan, in the process that measures it.
        task: the task that plans are for; None resolves it from each plan's settings.
        seed: seed of weights that files lack, and of inputs.
        runs: runs of which the median counts.

    Raises:
        ExecutionError: no GPU can be reached, if `open_device` is the default, or `runs` is below 1.

    Example:
        >>> from memplace_env.backends.cuda.simulator import DeviceSimulator
        >>> env = gym.make("MallocGame-v0", workload="BERT", accelerator="cuda.toml", simulator=DeviceSimulator())
    """

    noisy = True

    def __init__(
        self,
        open_device: Callable[[], Device] = open_cuda,
        *,
        task: Task | None = None,
        seed: int = 0,
        runs: int = RUNS,
    ) -> None:
        if runs < 1:
            raise ExecutionError(f"runs must be at least 1, not {runs}.")
        if open_device is open_cuda:
            require_cuda()
        self._open, self._task, self._seed, self._runs = open_device, task, seed, runs
        self._device: Device | None = None
        self._last: tuple[Program, Accelerator, Bench] | None = None

    def run(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Report:
        """Measure a plan.

        Raises:
            ExecutionError: there is no device, or the program cannot be executed there.
        """
        bench = self.bench(program, accelerator, plan)
        return report_of(bench.task, plan, bench.measure(plan, self._runs))

    def bench(self, program: Program, accelerator: Accelerator, plan: MemoryPlan) -> Bench:
        """Return the bench that measures such plans, the same object while program and chip stay the same."""
        if self._last is None or self._last[0] is not program or self._last[1] is not accelerator:
            self._last = None  # freed first, as two would not fit into the device's memory
            gc.collect()  # reference cycles may keep benches alive, those of other simulators too
            if self._device is None:
                self._device = self._open()
            task = self._task or _task_of(accelerator, plan)
            if (task.program.sha256, task.accelerator.sha256) != (program.sha256, accelerator.sha256):
                raise ExecutionError(
                    f"{program.name!r} on {accelerator.name!r} is not the program of this simulator, which is "
                    f"{task.program.name!r} on {task.accelerator.name!r}; make a simulator for each."
                )
            self._last = program, accelerator, Bench(task, self._device, seed=self._seed)
        return self._last[2]

    def __getstate__(self) -> dict[str, object]:
        """Leave out the device and its memory, which belong to this process; a copy opens the device anew."""
        return {**self.__dict__, "_device": None, "_last": None}


def report_of(task: Task, plan: MemoryPlan, timing: Timing) -> Report:
    """Return a timing as a report.

    Latency is the median inference. Times of single ops, waits and the tail come from one more run with clocks between
    them; they are scaled so that they add up to the latency. Bytes, times of ports and what binds an op are the cost
    model's. Energy is not measured, so 0; nothing bounds a measurement, so the bound is 1 ps.
    """
    modelled = time_plan(task, plan)
    latency = max(1, round(statistics.median(timing.inference_s.tolist()) * PS_PER_S))
    parts = np.concatenate([timing.op_s, timing.wait_s, [timing.tail_s]])
    parts = parts if parts.sum() > 0 else np.ones_like(parts)
    ends = np.rint(parts.cumsum() / parts.sum() * latency).astype(np.int64)
    ps = np.diff(ends, prepend=0)
    ops = task.program.num_ops
    return replace(
        modelled,
        latency_ps=latency,
        op_time_ps=ps[:ops],
        stall_ps=ps[ops : 2 * ops],
        tail_ps=int(ps[-1]),
        compute_ps=np.minimum(modelled.compute_ps, ps[:ops]),
        energy_j=0.0,
        traffic_bound_ps=1,
    )


def _task_of(accelerator: Accelerator, plan: MemoryPlan) -> Task:
    settings = plan.settings
    if "workload" not in settings:
        raise ExecutionError(f"The plan for {plan.program!r} does not name its model; pass DeviceSimulator the task.")
    names = ("costs", "batch", "dims", "dtype", "fusion", "trips", "values", "cut", "aliases", "slices", "order")
    named: dict[str, Any] = {key: settings.get(key) for key in (*names, "pins")}
    named |= {key: settings.get(key, value) for key, value in as_written(accelerator.name).items()}
    return resolve_task(settings["workload"], accelerator, **named)
