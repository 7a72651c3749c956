"""The agent: one plan, made as XLA would."""

from __future__ import annotations

import time
from typing import Any, Protocol, runtime_checkable

import gymnasium as gym

import memplace_env  # noqa: F401  (registers the environments)
from agents.base import Callback, Progress, Solution
from agents.xla_msa.assign import assign
from agents.xla_msa.options import MsaOptions
from memplace_env.accelerator import Accelerator
from memplace_env.compiler import native
from memplace_env.errors import AgentError
from memplace_env.plan import require_valid
from memplace_env.simulator import Simulator
from memplace_env.workload.program import Program


@runtime_checkable
class Task(Protocol):
    """What the agent asks of an environment: what runs, on which machine, and what a plan costs."""

    program: Program
    accelerator: Accelerator
    simulator: Simulator


class XlaMsa:
    """XLA's memory-space assignment: one pass of greedy placement, buffer by buffer, see `assign`.

    Args:
        options: `MsaOptions.open_source()` if None.
    """

    name = "xla-msa"
    budgeted = False

    def __init__(self, options: MsaOptions | None = None) -> None:
        self.options = options or MsaOptions.open_source()

    def solve(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | None = None,
        time_limit: float | None = None,
    ) -> Solution:
        """See `agents.base.Agent.solve`. One plan is made, in well under a second; nothing is random."""
        begin = time.perf_counter()
        made = gym.make(env) if isinstance(env, str) else env
        task: object = made.unwrapped
        if not isinstance(task, Task):
            raise AgentError(
                f"{made} tells no program, accelerator and simulator; pass one of MemPlace's environments."
            )
        plan = assign(task.program, task.accelerator, self.options)
        require_valid(task.program, task.accelerator, plan)
        report = task.simulator.run(task.program, task.accelerator, plan)
        progress = Progress(1, time.perf_counter() - begin, report.latency_s)
        if callback is not None:
            callback(progress)
        baseline = native(task.program, task.accelerator, task.simulator)
        return Solution(
            agent=self.name,
            outcome="feasible",
            plan=plan,
            report=report,
            native_latency_s=task.simulator.run(task.program, task.accelerator, baseline).latency_s,
            bound_s=None,
            history=(progress,),
            evaluations=1,
            seconds=progress.seconds,
            seed=seed,
        )
