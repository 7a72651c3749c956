"""Many graph policies at once: genomes in, logits out, by one chain of batched products.

`GraphPolicy.forward` is the definition; this is the same function of the same weights, with a leading dimension for
the members of a population. A forward pass of torch-geometric costs as much for 57 nodes as for 372, nearly all of it
calls; here a population costs hardly more than one member.

In shapes `M` denotes the members, `P` their weights, `T` the ops, `E` the edges, `L` the levels, `H` the width of the
hidden layers and `A` the attention heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from memplace_agents.learning.graph_policy import SUB_ACTIONS, Graph, GraphPolicy

_SELF_LOOP = 2.0
"""Weight of self-loops in Gao and Ji's graph convolutions (torch-geometric's `improved`)."""


class PopulationForward:
    """The forward pass of `GraphPolicy` for any number of members with one shape on one workload.

    Args:
        policy: gives the shapes; its weights do not matter.
        graph: the workload.
    """

    def __init__(self, policy: GraphPolicy, graph: Graph) -> None:
        self.graph = graph
        self.depth = policy.options["depth"]
        self.attention_heads = policy.options["attention_heads"]
        self._shapes = {name: weight.shape for name, weight in policy.state_dict().items()}
        # float32[1, T, T], 1 where two ops share a tensor; one for all members.
        self._adjacency = graph.adjacency.to_dense()[None]
        # int64[2E + T] each, of the messages: along the edges, and from every op to itself.
        self._source, self._target = torch.cat([graph.edges, torch.arange(len(graph.nodes)).expand(2, -1)], dim=1)

    def weights(self, genomes: Tensor) -> dict[str, Tensor]:
        """Return views of genomes float32[M, P] as named weights [M, ...], in the order of the state dict."""
        sizes = [prod(shape) for shape in self._shapes.values()]
        parts = zip(self._shapes.items(), torch.split(genomes, sizes, dim=1), strict=True)
        return {name: torch.unflatten(part, 1, shape) for (name, shape), part in parts}

    def __call__(self, genomes: Tensor) -> Tensor:
        """Return logits float32[M, T, 2, L] of genomes float32[M, P]; differentiable."""
        weights = self.weights(genomes)
        hidden = torch.relu(self._body(weights))
        logits = torch.stack([self._head(weights, f"heads.{head}", hidden) for head in range(SUB_ACTIONS)], dim=2)
        return logits.masked_fill(~self.graph.mask, torch.finfo(logits.dtype).min)

    def _body(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return the output of the Graph U-Net, float32[M, T, H]."""
        adjacency = self._adjacency
        hidden = torch.relu(_convolve(weights, "body.down_convs.0", _normalised(adjacency), self.graph.nodes[None]))
        skips = []
        # Each pass pools n nodes to k = ceil(n / 2): hidden [M, n, H] -> [M, k, H], adjacency [M, n, n] -> [M, k, k].
        for level in range(1, self.depth + 1):
            direction = weights[f"body.pools.{level - 1}.select.weight"]  # [M, 1, H]
            score = torch.tanh((hidden * direction).sum(-1) / direction.norm(dim=-1))  # [M, n]
            kept = score.sort(dim=1, descending=True)[1][:, : ceil(score.shape[1] / 2)]  # [M, k], nodes of each member
            skips.append((hidden, _normalised(adjacency), kept))
            member = torch.arange(len(kept))[:, None]  # [M, 1], beside `kept` it picks each member's own nodes
            hidden = (hidden * score[..., None])[member, kept]
            reach = _two_steps(adjacency).expand(len(kept), -1, -1)
            adjacency = reach[member[..., None], kept[:, :, None], kept[:, None, :]]
            hidden = torch.relu(_convolve(weights, f"body.down_convs.{level}", _normalised(adjacency), hidden))
        # And back up: the k nodes return to their places among the n, the others get 0, and what was skipped is added.
        for step, (skipped, fine, kept) in enumerate(reversed(skips)):
            index = kept[..., None].expand(-1, -1, hidden.shape[2])
            hidden = skipped + torch.zeros_like(skipped).scatter(1, index, hidden)
            hidden = _convolve(weights, f"body.up_convs.{step}", fine, hidden)
            hidden = torch.relu(hidden) if step < self.depth - 1 else hidden
        return hidden

    def _head(self, weights: Mapping[str, Tensor], name: str, hidden: Tensor) -> Tensor:
        """Return the output float32[M, T, L] of one graph attention layer."""
        values = hidden @ weights[f"{name}.lin.weight"].mT
        values = torch.unflatten(values, 2, (self.attention_heads, -1))  # [M, T, A, L]
        source_score = (values * weights[f"{name}.att_src"]).sum(-1)  # [M, T, A], likewise the next
        target_score = (values * weights[f"{name}.att_dst"]).sum(-1)
        source, target = self._source, self._target
        score = leaky_relu(source_score[:, source] + target_score[:, target], 0.2)  # [M, 2E + T, A]
        # A softmax over the edges into each op; the highest score is subtracted, so that no exponential overflows.
        index = target[:, None].expand_as(score)
        highest = torch.zeros_like(source_score).scatter_reduce(1, index, score.detach(), "amax", include_self=False)
        score = (score - highest[:, target]).exp()
        total = torch.zeros_like(source_score).index_add(1, target, score)
        share = score / total[:, target]
        mixed = torch.zeros_like(values).index_add(1, target, values[:, source] * share[..., None])
        return mixed.mean(2) + weights[f"{name}.bias"][:, None]


def _convolve(weights: Mapping[str, Tensor], name: str, normalised: Tensor, hidden: Tensor) -> Tensor:
    """Return a graph convolution (Kipf and Welling, 2017), float32[M, n, H], of hidden float32[M, n, ...]."""
    return normalised @ hidden @ weights[f"{name}.lin.weight"].mT + weights[f"{name}.bias"][:, None]


def _normalised(adjacency: Tensor) -> Tensor:
    """Return D^-1/2 (A + 2 I) D^-1/2 of symmetric float32[..., n, n]."""
    looped = adjacency + _SELF_LOOP * torch.eye(adjacency.shape[-1])
    scale = looped.sum(-1).rsqrt()
    return scale[..., :, None] * looped * scale[..., None, :]


def _two_steps(adjacency: Tensor) -> Tensor:
    """Return (A + I)^2 without its diagonal: in how many ways nodes reach each other in at most two steps."""
    itself = torch.eye(adjacency.shape[-1])
    looped = adjacency + itself
    return (looped @ looped) * (1 - itself)
