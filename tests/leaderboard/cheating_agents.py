"""Agents that cheat, for `test_judge`: each once passed as honest."""

import gc
import os
import resource
import time
from pathlib import Path

import numpy as np

from memplace_agents import Agent
from memplace_env.envs.registration import Formulation
from memplace_env.leaderboard.pinned import make_env
from memplace_env.placement.compiler import HEURISTICS, native_plan
from memplace_env.placement.simulator import evaluate_plan


class Cheat(Agent):
    """Base of the others: plays one-shot environments."""

    formulations = (Formulation.ONE_SHOT,)


class BehindItsBack(Cheat):
    """Times tens of thousands of plans on another copy, and asks for one."""

    name = "behind its back"

    def run(self, evaluator, seed):
        own = make_env(evaluator.env.spec.id)
        rng, problem = np.random.default_rng(seed), own.problem
        tried = rng.integers(problem.accelerator.num_levels, size=(50_000, problem.num_decisions))
        best = tried[own.score(tried)[1].latency_s.argmin()]
        evaluator(best[None])


class CounterReset(Cheat):
    """Measures as often as it likes, and sets every counter that it finds back."""

    name = "counter reset"

    def run(self, evaluator, seed):
        task, plan = evaluator.env.task, native_plan(evaluator.env.task)
        for _ in range(30):
            try:
                evaluate_plan(task, plan)
            except Exception:
                break
            task.simulator.measured = evaluator.evaluations = evaluator.env.problem.evaluated = 0
        evaluator.evaluations = 0
        evaluator._best_plan, evaluator._best_latency = plan, 1.0
        evaluator._race = None


class ClockPatch(Cheat):
    """Stops the clocks of its process, and takes its time."""

    name = "clock patch"

    def run(self, evaluator, seed):
        time.perf_counter = time.process_time = time.monotonic = lambda: 0.0
        while resource.getrusage(resource.RUSAGE_SELF).ru_utime < 4.0:
            evaluator(evaluator.env.problem.native_assignment[None])


FOUND = []
"""Plans that `WarmCache` keeps for later seeds."""


class WarmCache(Cheat):
    """Searches with the first seed, and knows the result with all others."""

    name = "warm cache"

    def run(self, evaluator, seed):
        plan = FOUND[0] if FOUND else native_plan(evaluator.env.task)
        FOUND.append(HEURISTICS["all-fastest"](evaluator.env.task))
        evaluator.offer(plan)


class FactorReader(Cheat):
    """Looks for the machine and its seed in all objects, and in the folder `LEADERBOARD_OUT`."""

    name = "factor reader"

    def run(self, evaluator, seed):
        found = [each for each in gc.get_objects() if hasattr(type(each), "additive_task")]
        found += [name for name in vars(evaluator.env.task.simulator) if "seed" in name or "machine" in name]
        folder = Path(os.environ.get("LEADERBOARD_OUT", "/nowhere"))
        texts = [path.read_bytes() for path in folder.glob("*") if path.is_file()]
        found += [text for text in texts if b"machine_seeds" in text or b"latency_ps" in text]
        evaluator.offer(native_plan(evaluator.env.task))
        if found:
            raise RuntimeError(f"found {len(found)}: {found[0]!r:.60}")


class Fork(Cheat):
    """Leaves a process behind, to search on while others are judged."""

    name = "fork"

    def run(self, evaluator, seed):
        if os.fork() == 0:
            Path(os.environ["LEADERBOARD_OUT"], "pid").write_text(str(os.getpid()))
            time.sleep(60)
            os._exit(0)
        evaluator.offer(native_plan(evaluator.env.task))


class Death(Cheat):
    """Ends its process in the middle."""

    name = "death"

    def run(self, evaluator, seed):
        os._exit(3)


class Pretender(Cheat):
    """Returns a solution with another plan than it evaluated, and no evaluations."""

    name = "pretender"

    def solve(self, env, *, budget=100, seed=0, callback=None, time_limit=None):
        solution = super().solve(env, budget=budget, seed=seed, callback=callback, time_limit=time_limit)
        object.__setattr__(solution, "evaluations", 0)
        return solution

    def run(self, evaluator, seed):
        evaluator(np.repeat(evaluator.env.problem.native_assignment[None], 8, axis=0))
