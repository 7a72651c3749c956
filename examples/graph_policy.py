"""Train a graph network by REINFORCE.

    python examples/graph_policy.py MallocGame-Tiny-v0 50

It plays games or steps. Nodes are ops; columns mark the decision. Decisions of episodes whose return beats their
round's mean become likelier.
"""

import argparse

import gymnasium as gym
import numpy as np
import torch

try:
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import SAGEConv, global_mean_pool
    from torch_geometric.utils import to_undirected
except ImportError as error:
    raise SystemExit("graph_policy.py needs PyTorch Geometric: pip install torch-geometric") from error


class GraphNetwork(torch.nn.Module):
    """Two rounds of messages along edges and against them; logits from the mean op and the ops decided about."""

    def __init__(self, columns):
        super().__init__()
        self.asked = [index for index, name in enumerate(columns) if name.endswith("asked")]
        self.first, self.second, self.head = SAGEConv(len(columns), 64), SAGEConv(64, 64), torch.nn.Linear(128, 3)

    def forward(self, graphs):
        links = [to_undirected(torch.as_tensor(graph.edge_links.T).long()) for graph in graphs]
        both = zip(graphs, links, strict=True)
        data = Batch.from_data_list([Data(torch.as_tensor(graph.nodes), link) for graph, link in both])
        ops = torch.relu(self.first(data.x, data.edge_index))
        ops = ops + torch.relu(self.second(ops, data.edge_index))
        about = data.x[:, self.asked].sum(1, keepdim=True) * ops
        return self.head(global_mean_pool(torch.cat([ops, 10 * about], 1), data.batch))


def train(env_id, rounds, count=16):
    """Return the mean return of each round: the first episodes of `count` environments, of drawn programs too."""
    envs = gym.make_vec(f"memplace_env:{env_id}", num_envs=count, vectorization_mode="sync", observation="graph")
    network = GraphNetwork(envs.envs[0].unwrapped.graph_columns)
    optimizer, means = torch.optim.Adam(network.parameters(), 3e-3), []
    for _ in range(rounds):
        (graphs, info), total, chances, live = envs.reset(), np.zeros(count), [], np.ones(count)
        while live.any():
            illegal = torch.as_tensor(info["action_mask"] == 0)
            policy = torch.distributions.Categorical(logits=network(graphs).masked_fill(illegal, -1e9))
            chances.append(policy.log_prob(actions := policy.sample()) * torch.as_tensor(live))
            graphs, rewards, ended, _, info = envs.step(actions.numpy())
            total, live = total + live * rewards, live * ~ended  # an ended environment begins another episode
        optimizer.zero_grad()
        (-sum(chances) * torch.as_tensor((total - total.mean()) / (total.std() + 1e-8))).mean().backward()
        optimizer.step()
        means.append(float(total.mean()))
    return means


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("id", help="id of a game or of steps")
    parser.add_argument("rounds", type=int)
    options = parser.parse_args()
    env_id = options.id.removeprefix("memplace_env:")
    if not env_id.startswith(("MallocGame-", "MemPlaceSteps-")):
        parser.error(f"{options.id} is neither a game nor steps; pass an id such as MallocGame-Tiny-v0")
    torch.manual_seed(0), torch.set_num_threads(1)
    print(*train(env_id, options.rounds), sep="\n")
