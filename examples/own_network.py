"""Let EGRL breed and train a network of your own.

EGRL needs three methods of a network: make it for a number of memory levels, say what it sees of a program, and decide.
Populations, gradients, checkpoints and policy files are EGRL's. This one has layers of PyTorch Geometric.
"""

import torch

from memplace_agents import EGRL
from memplace_agents.egrl.egrl_config import CONFIGS
from memplace_agents.learning.graph_policy import Graph, LevelNetwork

try:
    from torch_geometric.nn import SAGEConv
except ImportError:
    raise SystemExit("This example has layers of PyTorch Geometric; run: pip install torch-geometric") from None

# ## Three methods
#
# `forward` returns logits of shape [ops, 2, levels]: each op decides on the level of its weights and of its results.
# EGRL masks the levels that a tensor cannot be in.


class SagePolicy(LevelNetwork):
    """Two layers of GraphSAGE."""

    def __init__(self, levels, width=32):
        super().__init__(levels)
        self.first, self.second = SAGEConv(19, width), SAGEConv(width, width)
        self.logits = torch.nn.Linear(width, 2 * levels)

    def inputs(self, problem):
        graph = Graph.of(problem)  # EGRL's 19 features of each op, and the edges in both directions
        return graph.nodes, graph.edges

    def forward(self, inputs):
        nodes, edges = inputs
        hidden = self.second(self.first(nodes, edges).relu(), edges).relu()
        return self.logits(hidden).unflatten(-1, (2, -1))


# ## A run
#
# The class is an option of the agent; the settings are those that EGRL's own network has.
if __name__ == "__main__":
    trained = EGRL(CONFIGS["imitating"], network=SagePolicy).train(["MemPlace-ResNet50-v0"], budget=400)
    print(f"{trained.solutions[0].speedup:.3f} times as fast as native")
