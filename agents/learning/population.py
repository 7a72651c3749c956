"""Many graph policies at once: genomes in, logits out, by one chain of batched products.

`GraphPolicy.forward` is the definition; this is the same function of the same weights, with a leading dimension for
the members of a population. A forward pass of torch-geometric costs as much for 57 nodes as for 372, nearly all of it
calls; here a population costs hardly more than one member.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod

import torch
from torch import Tensor
from torch.nn.functional import leaky_relu

from agents.learning.graph_policy import SUB_ACTIONS, Graph, GraphPolicy
from memplace_env.threads import cached_property

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

    @property
    def genome_size(self) -> int:
        """P, the number of weights."""
        return sum(map(prod, self._shapes.values()))

    def weights(self, genomes: Tensor) -> dict[str, Tensor]:
        """Views of genomes float32[M, P] as named weights with a leading M, in the order of the state dict."""
        sizes = [prod(shape) for shape in self._shapes.values()]
        parts = zip(self._shapes.items(), torch.split(genomes, sizes, dim=1), strict=True)
        return {name: torch.unflatten(part, 1, shape) for (name, shape), part in parts}

    def __call__(self, genomes: Tensor) -> Tensor:
        """Logits float32[M, T, 2, L] of genomes float32[M, P]; differentiable."""
        weights = self.weights(genomes)
        hidden = torch.relu(self._body(weights))
        logits = torch.stack([self._head(weights, f"heads.{at}", hidden) for at in range(SUB_ACTIONS)], dim=2)
        return logits.masked_fill(~self.graph.mask, torch.finfo(logits.dtype).min)

    def _body(self, weights: Mapping[str, Tensor]) -> Tensor:
        """The Graph U-Net, float32[M, T, hidden]."""
        adjacency = self._adjacency
        hidden = torch.relu(_convolve(weights, "body.down_convs.0", _normalised(adjacency), self.graph.nodes[None]))
        levels = []
        for level in range(1, self.depth + 1):
            direction = weights[f"body.pools.{level - 1}.select.weight"]
            score = torch.tanh((hidden * direction).sum(-1) / direction.norm(dim=-1))
            kept = score.sort(dim=1, descending=True)[1][:, : ceil(score.shape[1] / 2)]
            levels.append((hidden, _normalised(adjacency), kept))
            member = torch.arange(len(kept))[:, None]
            hidden = (hidden * score[..., None])[member, kept]
            reach = _two_steps(adjacency).expand(len(kept), -1, -1)
            adjacency = reach[member[..., None], kept[:, :, None], kept[:, None, :]]
            hidden = torch.relu(_convolve(weights, f"body.down_convs.{level}", _normalised(adjacency), hidden))
        for step, (skipped, fine, kept) in enumerate(reversed(levels)):
            index = kept[..., None].expand(-1, -1, hidden.shape[2])
            hidden = skipped + torch.zeros_like(skipped).scatter(1, index, hidden)
            hidden = _convolve(weights, f"body.up_convs.{step}", fine, hidden)
            hidden = torch.relu(hidden) if step < self.depth - 1 else hidden
        return hidden

    def _head(self, weights: Mapping[str, Tensor], name: str, hidden: Tensor) -> Tensor:
        """One graph attention layer, float32[M, T, L]."""
        values = hidden @ weights[f"{name}.lin.weight"].mT
        values = torch.unflatten(values, 2, (self.attention_heads, -1))
        sends = (values * weights[f"{name}.att_src"]).sum(-1)
        receives = (values * weights[f"{name}.att_dst"]).sum(-1)
        source, target = self._attended
        score = leaky_relu(sends[:, source] + receives[:, target], 0.2)
        where = target[:, None].expand_as(score)
        highest = torch.zeros_like(sends).scatter_reduce(1, where, score.detach(), "amax", include_self=False)
        score = (score - highest[:, target]).exp()
        total = torch.zeros_like(sends).index_add(1, target, score)
        share = score / total[:, target]
        mixed = torch.zeros_like(values).index_add(1, target, values[:, source] * share[..., None])
        return mixed.mean(2) + weights[f"{name}.bias"][:, None]

    @cached_property
    def _adjacency(self) -> Tensor:
        """float32[1, T, T], 1 where two ops share a tensor; one for all members."""
        ops = len(self.graph.nodes)
        adjacency = torch.zeros(1, ops, ops)
        adjacency[0, self.graph.edges[0], self.graph.edges[1]] = 1.0
        return adjacency

    @cached_property
    def _attended(self) -> tuple[Tensor, Tensor]:
        """int64[2E + T] twice: who sends to whom, each op to itself as well."""
        source, target = self.graph.edges
        itself = torch.arange(len(self.graph.nodes))
        return torch.cat([source, itself]), torch.cat([target, itself])


def _convolve(weights: Mapping[str, Tensor], name: str, normalised: Tensor, hidden: Tensor) -> Tensor:
    """Graph convolution (Kipf and Welling, 2017)."""
    return normalised @ hidden @ weights[f"{name}.lin.weight"].mT + weights[f"{name}.bias"][:, None]


def _normalised(adjacency: Tensor) -> Tensor:
    """D^-1/2 (A + 2 I) D^-1/2 of symmetric float32[..., n, n]."""
    looped = adjacency + _SELF_LOOP * torch.eye(adjacency.shape[-1])
    scale = looped.sum(-1).rsqrt()
    return scale[..., :, None] * looped * scale[..., None, :]


def _two_steps(adjacency: Tensor) -> Tensor:
    """(A + I)^2 without its diagonal: who is at most two steps away, and by how many ways."""
    itself = torch.eye(adjacency.shape[-1])
    looped = adjacency + itself
    return (looped @ looped) * (1 - itself)
