"""Compile the kernels that most tests need, once for all workers of a session.

`python -m tests.compiled_kernels one-shot` (or `game`) compiles one half; `compile_kernels` runs both halves side by
side. Without it each of two workers compiles every kernel for itself, more than a minute each.
"""

from __future__ import annotations

import subprocess
import sys

PROGRAM = "synthetic:diamond?ops=9&seed=1"
BUDGET = 20


def compile_kernels() -> None:
    """Fill the cache on disk; kernels that are in it already cost seconds."""
    halves = [subprocess.Popen([sys.executable, "-m", __name__, half]) for half in ("one-shot", "game")]
    for half in halves:
        half.wait()


def one_shot() -> None:
    """Kernels of the compiler, of both kinds of machines, and of searches over assignments."""
    import gymnasium as gym

    from memplace_agents import make_agent

    for chip in ("nnp-i", "tpu-v4i"):
        env = gym.make("memplace_env:MemPlace-v0", workload=PROGRAM, accelerator=chip)
        for name in ("density-greedy", "local-search", "egrl"):
            make_agent(name).solve(env, budget=BUDGET)
        steps = gym.make("MemPlaceSteps-v0", workload=PROGRAM, accelerator=chip)
        steps.reset()
        steps.step(0)


def game() -> None:
    """Kernels of the game, of its observations and of the searches that play it."""
    import gymnasium as gym

    from memplace_agents import make_agent

    env_id = "memplace_env:MallocGame-v0"
    for observation in ("dict", "flat"):
        gym.make_vec(env_id, num_envs=4, workload=PROGRAM, observation=observation).reset(seed=0)
    env = gym.make(env_id, workload=PROGRAM)
    for name in ("xla-msa", "beam-search", "game-local-search", "exact", "muzero"):
        make_agent(name).solve(env, budget=BUDGET)


if __name__ == "__main__":
    {"one-shot": one_shot, "game": game}[sys.argv[1]]()
