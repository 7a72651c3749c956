"""Read the pictures.

MemPlace draws a plan, the difference between two plans, and a run. This page makes the first two and says how to read
them.
"""

import gymnasium as gym
from matplotlib import image

import memplace_agents
import memplace_env  # noqa: F401 (registers the ids)

# ## A plan
#
# `memplace solve` draws this picture beside the plan. From Python it is the environment's `render`.


env = gym.make("MemPlace-ResNet50-v0", render_mode="rgb_array")
env.reset()
env.step(env.unwrapped.problem.native_assignment)
picture = env.render()
image.imsave("native.png", picture)
print("native.png", picture.shape)

# ![The best plan of ResNet-50 on the NNP-I](../docs/pictures/resnet50.png)
#
# - **Across** is time: ops in execution order, the same in all panels.
# - **Up** is the address in a memory, one panel for each fast one. The upper edge is its capacity.
# - **A block** is a tensor: its height is its bytes, its width the ops during which the bytes are its own. Blue blocks
#   are weights, which stay for the whole inference on this chip; orange ones are activations.
# - **A gap** is free room. Many gaps under a full edge mean that sizes and lifetimes do not fit together well.
# - **The lowest panel** has the time of each op: grey is compute, dark orange what memory adds, light blue what the
#   plan saves against native.
#
# ## Two plans
#
# `memplace explain plan.json` shows where a plan differs from native's, op by op, and draws `explain.png`; with
# `--html plan.html` it writes a page to zoom into and to search, by address and time. `memplace compare a.json b.json
# --out both.png` draws two plans side by side. What the differences are worth is in the report:
native, best = (memplace_agents.make_agent(name).solve(env).report for name in ("native", "exact"))
saved = native.op_time_ps - best.op_time_ps
op = int(saved.argmax())
print(f"most is saved in op {op}, a {env.unwrapped.program.op_type[op]}: {saved[op] / 1e6:.1f} us")

# ## A run
#
# `trace.json` opens in [Perfetto](https://ui.perfetto.dev): a lane for each unit and each port, copies between them,
# zoom and search. `memplace render MODEL --simulator event --out run.png` draws what works when on a machine that
# overlaps ops and copies.
