"""Plan for your own model.

You have a model file and want to know how fast it can be on a chip, and where its tensors must lie for that. This page
goes from an ONNX file to a memory plan in six steps, and takes some seconds.
"""

from itertools import pairwise

import gymnasium as gym
import onnx
from onnx import TensorProto, helper

import memplace_agents
import memplace_env

# ## A model
#
# Any `.onnx`, `.tflite` or StableHLO file will do ([how to export one](export_models.py)). MemPlace reads shapes and
# types, never the weights' values, so the weights may be missing. Here a small network is made on the spot: eight
# convolutions, every second one with stride 2, and a symbolic batch size.
channels = [3, 32, 32, 64, 64, 128, 128, 256, 256]
image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 160, 160])
features = helper.make_tensor_value_info("t7", TensorProto.FLOAT, None)
nodes, weights, value = [], [], "image"
for layer, (before, after) in enumerate(pairwise(channels)):
    shape, zeros = [after, before, 3, 3], bytes(4 * after * before * 9)
    weights.append(helper.make_tensor(f"w{layer}", TensorProto.FLOAT, shape, zeros, raw=True))
    stride = 1 + layer % 2
    nodes.append(
        helper.make_node("Conv", [value, f"w{layer}"], [f"c{layer}"], pads=[1] * 4, strides=[stride] * 2),
    )
    nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"t{layer}"]))
    value = f"t{layer}"
onnx.save(helper.make_model(helper.make_graph(nodes, "network", [image], [features], weights)), "network.onnx")

# ## An environment
#
# `batch=1` binds the symbolic dim; any other dim is bound with `dims={"sequence": 384}`. The chip is one of those that
# come with MemPlace (`memplace accelerators` lists them), or [your own](own_chip.py).

env = gym.make("MemPlace-v0", workload="network.onnx", accelerator="ethos-u65", batch=1)
task = env.unwrapped.task
print(f"{task.program.num_ops} ops, {task.program.num_tensors} tensors")

# ## A plan
#
# `Auto`, the default of `memplace solve`, tries all cheap rules and then proves the optimum. A `Solution` holds the
# plan and the simulator's report of it.
solution = memplace_agents.Auto().solve(env)
print(f"native   {solution.native_latency_s * 1e3:.3f} ms, what the chip's own compiler would do")
print(f"plan     {solution.latency_s * 1e3:.3f} ms, {solution.speedup:.3f} times as fast, {solution.outcome}")

# ## What it says
#
# The report knows where the time goes: what each op waits for, and the bytes that each memory moves.
report = solution.report
print("bound by", {name: int((report.bound_by == level).sum()) for level, name in enumerate(report.level_names)})
print("peak bytes in SRAM", int(report.peak_bytes[0]), "of", task.accelerator.levels[0].capacity_bytes)

# ## A file
#
# A plan is JSON: which level serves each use, the address of each block, and the copies. `validate` is an independent
# check that nothing overlaps and that all data are where they are read; no violations means that the plan can run.
solution.plan.save("plan.json")
plan = memplace_env.MemoryPlan.load("plan.json")
print("violations:", memplace_env.validate(task.program, task.accelerator, plan))

# ## On the command line
#
# The same, with pictures and tables ([how to read them](pictures.py)):
#
#     memplace solve network.onnx --accelerator ethos-u65 --batch 1
#     memplace explain network.onnx out/network-ethos-u65/plan.json
