"""Bring your own cost model.

You know better than a roofline what an op costs on your machine. If that can be said in arrays, one number for each op
and for each use of a tensor at each memory level, then every environment, search and proof runs on it at full speed.
"""

import gymnasium as gym

import memplace_agents
import memplace_env
from memplace_env.machine.costs import Roofline
from memplace_env.testing import check_cost_model

# ## The model
#
# A cost model is an object with one method. `Costs` holds integer picoseconds: `compute_ps` for each op, `use_ps` for
# each use at each level, and more. The simplest way is to begin with the roofline and to change what is different. Here
# the ports reach four fifths of their peak, and each op keeps a sixteenth of the fastest memory for its double buffers.


class Staged:
    """The roofline with slower ports and with double buffers."""

    def costs(self, program, accelerator):
        costs = Roofline().costs(program, accelerator)
        costs.reserved_bytes[:, 0] = accelerator.levels[0].capacity_bytes // 16
        return costs._replace(use_ps=costs.use_ps * 5 // 4)


# ## A check
#
# `check_cost_model` tries it on small programs and several chips, and names the first thing that is wrong.

check_cost_model(Staged())

# ## Plans under it
#
# `costs=` takes the object. A plan that is best for the roofline need not be best here, so the last line evaluates
# the roofline's best plan under the new costs.


nominal = memplace_agents.Exact().solve(gym.make("MemPlace-ResNet50-v0", costs="roofline"))
env = gym.make("MemPlace-ResNet50-v0", costs=Staged())
own = memplace_agents.Exact().solve(env)
print(f"best under the roofline {nominal.report.latency_s * 1e6:.2f} us")
print(f"best under your costs   {own.report.latency_s * 1e6:.2f} us, {own.outcome}")
task = env.unwrapped.task
wrong = memplace_env.validate(task.program, task.accelerator, nominal.plan, costs=Staged())
print(f"the roofline's plan breaks {len(wrong)} rules here: its blocks leave no room for the buffers")

# ## Under a name
#
# A package that installs the class under the entry-point group `memplace.cost_models` gives it a name, for `--costs` on
# the command line and for `cost_model` in a chip's file. What no array can say is [a simulator's](own_simulator.py).
