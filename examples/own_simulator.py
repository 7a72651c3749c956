"""Bring your own simulator.

You have a simulator, a board, or a formula that turns a plan into seconds, and nothing more: no costs of single ops, no
derivative, no guarantee. MemPlace treats it as a black box, and searches with as few questions as possible.
"""

import gymnasium as gym
import numpy as np

import memplace_agents
import memplace_env
from memplace_env import Report
from memplace_env.testing import check_simulator

# ## One method, one number
#
# `run` gets a valid plan and returns a `Report`. A simulator that knows the latency alone returns
# `Report.measured(seconds)`. This one, made up for this page, charges 2 microseconds each time that an op's operands
# come from more than one memory: something that no array of costs can say. A real one would write the plan to a file,
# call your tool, and read the seconds that it prints.


class Board:
    """The built-in times, plus a penalty for ops that read from several memories."""

    def run(self, program, accelerator, plan):
        report = memplace_env.simulate(program, accelerator, plan)
        mixed = 0
        for op in range(program.num_ops):
            levels = plan.use_level[program.use_ptr[op] : program.use_ptr[op + 1]]
            mixed += np.unique(levels).size > 1
        return Report.measured(report.latency_s + 2e-6 * mixed)


# ## A check

check_simulator(Board())

# ## A search
#
# A hundred measurements. `LocalSearch` only asks the board. `Calibrated` also fits the built-in costs to the answers
# and solves those. `CompilersRule`, the chip's own compiler, is what both have to beat.


env = gym.make("MemPlace-ResNet50-v0", simulator=Board())
for name in ("native", "local-search", "calibrated"):
    solution = memplace_agents.make_agent(name).solve(env, budget=100, seed=0)
    print(f"{name:13} {solution.latency_s * 1e3:.3f} ms, {solution.speedup:.3f} times as fast as native")

# ## Noise, speed, a name
#
# A simulator that measures, so that two runs differ, sets `noisy = True`; agents then repeat a measurement before they
# believe it. One that is faster with many plans at once has `run_batch(program, accelerator, plans)` too. A package
# that installs an object under the entry-point group `memplace.simulators` gives it a name for `--simulator`.
