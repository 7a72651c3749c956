"""Plan a PyTorch model in ExecuTorch.

You deploy a PyTorch model with ExecuTorch, and its arena is too large, or its tensors must go to the right memories.
One argument of `to_executorch` changes the planner. This page needs `pip install "memplace[executorch]"`.
"""

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir.passes import MemoryPlanningPass
from torch import nn

import memplace_env
from memplace_env.backends.executorch import MemPlacePlanner


# ## A model: any module that `torch.export` takes
class Block(nn.Module):
    """Two products with an activation between them, and a way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.inner(x)


model, example = nn.Sequential(Block(64), Block(64)).eval(), (torch.randn(1, 96, 64),)

# ## The smallest arena
#
# The planner is called for each method. It keeps ExecuTorch's own plan where its own is not smaller.
planner = MemPlacePlanner()
config = ExecutorchBackendConfig(memory_planning_pass=MemoryPlanningPass(memory_planning_algo=planner))
program = to_edge(torch.export.export(model, example)).to_executorch(config)
sizes = planner.sizes[-1]
print(f"before {sum(sizes.default):,} bytes, after {sum(sizes.planned):,}, at least {sizes.bound:,}")

# ## The model as a workload
#
# What ExecuTorch executes is a workload for every command and agent, too, as `memplace solve block.program` shows.
# `MemPlacePlanner("my-chip.toml")` puts the tensors into the memories of [a chip](own_chip.py): arena 1 is the fastest,
# the last one the backing memory.
workload = memplace_env.from_executorch(program)
workload.save("block.program")
print(f"{workload.num_ops} ops, {workload.macs.sum():,} multiply-accumulates")
