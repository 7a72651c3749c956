"""Write your own agent.

An agent of MemPlace is a search: it proposes assignments, and an evaluator counts them, keeps the best and stops at the
budget. Written once, it runs from Python, from the command line and on [the leaderboard](submission.py).
"""

import numpy as np

from memplace_agents import Agent
from memplace_env.envs.registration import Formulation

# ## Hill climbing
#
# `run` is all that a subclass writes. An assignment has a memory level for each decision; `problem.decides` marks those
# that have a choice. `evaluator(assignments)` takes a batch, and evaluates fewer of them once the budget is spent.


class Climber(Agent):
    """Changes a few levels of the best assignment, and accepts what is faster."""

    name = "climber"
    formulations = (Formulation.ONE_SHOT,)

    def __init__(self, changes=2):
        self.changes = changes

    def run(self, evaluator, seed):
        rng, problem = np.random.default_rng(seed), evaluator.env.problem
        best, levels = problem.native_assignment, problem.accelerator.num_levels
        latency_s = evaluator(best[None]).latency_s[0]
        while evaluator.remaining > 0:
            tried = np.repeat(best[None], 8, axis=0)
            for one in tried:
                decisions = rng.choice(np.flatnonzero(problem.decides), self.changes)
                one[decisions] = rng.integers(levels, size=self.changes)
            latencies = evaluator(tried).latency_s
            if len(latencies) and latencies.min() < latency_s:
                best, latency_s = tried[latencies.argmin()], latencies.min()


# ## A check, and a run
#
# `check_agent` plays small environments and names what breaks the contract: other results with the same seed, more
# plans than the budget, a plan that was never evaluated.
if __name__ == "__main__":
    from memplace_agents import make_agent
    from memplace_env.testing import check_agent

    check_agent(Climber())
    for agent in (make_agent("random"), Climber(), make_agent("exact")):
        solution = agent.solve("MemPlace-ResNet50-v0", budget=2000, seed=0)
        print(f"{agent.name:8} {solution.speedup:.3f} times as fast as native")

# ## On the command line
#
# `module:Class` names a class of the current folder, without installing anything:
#
#     memplace solve BERT --agent own_agent:Climber
#
# Under the entry-point group `memplace.agents` a package gives it a name of its own. Agents of the game get another
# evaluator, which plays games; `GreedyPlayer` in `memplace_agents/rule_agents.py` is a short one.
