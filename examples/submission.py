"""Submit to the leaderboard.

A row of the leaderboard is a folder: an agent's plans, its learning curves, and who made it. Everybody can verify it,
because plans are replayed. This page makes a small one and looks at it.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from memplace_agents import Agent
from memplace_env.envs.registration import Formulation

# ## An agent
#
# This one goes through the decisions in turn and tries each level for each. [Your own agent](own_agent.py) explains
# what it is made of.


class Sweep(Agent):
    """Tries every level for every decision, one after another."""

    name = "sweep"
    formulations = (Formulation.ONE_SHOT,)
    deterministic = True

    def run(self, evaluator, seed):
        problem = evaluator.env.problem
        levels = np.arange(problem.accelerator.num_levels)
        best = problem.native_assignment.copy()
        for decision in np.flatnonzero(problem.decides):
            tried = np.repeat(best[None], levels.size, axis=0)
            tried[:, decision] = levels
            latencies = evaluator(tried).latency_s
            if len(latencies) < levels.size:
                break  # the budget is spent
            best = tried[latencies.argmin()]


# ## Run
#
# `memplace leaderboard run` tries the agent on small environments and then plays a suite. Each run is a process of its
# own, and a judge in another process counts plans and time. A real submission leaves `--budget` out and takes all
# budgets of the suite; `--deterministic` says that the seed changes nothing, so that one is enough.


def memplace(*arguments):
    """Run a command in the folder of this script, and return what it prints."""
    command = [sys.executable, "-m", "memplace", *arguments]
    return subprocess.run(command, cwd=Path(__file__).parent, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    mine = str(Path("mine").absolute())
    where = "--suite", "quick-v1", "--budget", "100", "--deterministic", "--out", mine
    memplace("leaderboard", "run", "submission:Sweep", *where)
    print(sorted(path.name for path in Path(mine).iterdir()))

    # Every plan is checked and timed again; an edited number is named.
    (result,) = json.loads(memplace("leaderboard", "verify", mine, "--json"))
    print(result["plans"], "plans, all valid:", result["ok"])

# ## Look at it
#
# `memplace leaderboard table mine` shows it beside the rules that need no search, and `memplace leaderboard page mine
# --out site` draws a page to explore. Then open a pull request that adds the folder to `benchmarks/submissions/`:
# [how a row gets onto the leaderboard](../docs/leaderboard.md) says who runs it again, and what is refused.
