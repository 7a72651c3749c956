"""EGRL's policy network: from the op graph to logits of the levels of every op's weights and results.

A whole population plays in one chain of batched products: genomes in, logits out. It costs hardly more than one member,
as nearly all of a forward pass is calls.

In shapes `M` denotes the members of a population, `P` the weights of one, `T` the ops, `E` the edges, `L` the levels,
`H` the width of the hidden layers and `A` the attention heads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import ceil, prod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.functional import leaky_relu

from memplace_agents.learning.policy_file import PolicyNetwork
from memplace_env._lib.errors import AgentError
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.envs.one_shot.observation import FEATURES, node_features

SUB_ACTIONS = 2
"""Decisions of each op: the level of its weights, the level of its results."""
_SAME = 1e-3
"""Least standard deviation by which a feature is divided; all are from 0 to 1."""
_SELF_LOOP = 2.0
"""Weight of self-loops in Gao and Ji's graph convolutions."""


class Graph(NamedTuple):
    """Input of the networks for one workload.

    Attributes:
        nodes: float32[T, 19], see `node_features`.
        edges: int64[2, 2E], both directions of each edge, as EGRL passes messages both ways.
        adjacency: sparse float32[T, T], 1 for each of the edges.
        mask: bool[T, 2, L], levels worth asking for.
    """

    nodes: Tensor
    edges: Tensor
    adjacency: Tensor
    mask: Tensor

    @classmethod
    def of(cls, problem: OneShotProblem) -> Graph:
        """Return the graph of a one-shot problem."""
        program = problem.program
        return cls.read(
            torch.from_numpy(node_features(program)), torch.tensor(program.edges), torch.from_numpy(problem.mask)
        )

    @classmethod
    def read(cls, nodes: Tensor, edge_index: Tensor, mask: Tensor) -> Graph:
        """Return the graph of an observation: nodes float32[T, 19], edge_index [2, E], action_mask of any shape."""
        ops, forward = len(nodes), edge_index.long()
        both = torch.cat([forward, forward.flip(0)], dim=1)
        counts = torch.sparse_coo_tensor(both, torch.ones(both.shape[1]), (ops, ops), check_invariants=True).coalesce()
        edges = counts.indices()
        adjacency = torch.sparse_coo_tensor(
            edges, torch.ones(edges.shape[1]), (ops, ops), check_invariants=True
        ).coalesce()
        return cls(nodes, edges, adjacency, mask.reshape(ops, SUB_ACTIONS, -1).bool())


class _Convolution(nn.Module):
    """Weights of a graph convolution (Kipf and Welling, 2017)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.weight = nn.Parameter(torch.empty(outputs, inputs))


class _Attention(nn.Module):
    """Weights of a graph attention layer (Velickovic et al., 2018) whose heads are averaged."""

    def __init__(self, inputs: int, outputs: int, attention_heads: int) -> None:
        super().__init__()
        self.source = nn.Parameter(torch.empty(attention_heads, outputs))
        self.target = nn.Parameter(torch.empty(attention_heads, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.weight = nn.Parameter(torch.empty(attention_heads * outputs, inputs))


class LevelNetwork(PolicyNetwork, ABC):
    """A network that decides levels; a network of one's own for `EGRL(network=...)` overrides these three methods.

    `__init__` takes the number of levels and calls this one; `inputs` says what the network sees of a program;
    `forward` decides. All parameters are float32. Further arguments with defaults are its own matter: files hold the
    number of levels and the weights.

    Args:
        levels: L.
    """

    KIND = "level-network/1"
    OPTIONS: ClassVar[Mapping[str, type]] = {"levels": int}

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.options = {"levels": levels}

    def __init_subclass__(cls) -> None:
        """Name the files of a class after it, unless it does so itself."""
        cls.KIND = vars(cls).get("KIND", f"{cls.__name__}/1")

    @property
    def levels(self) -> int:
        """L, the number of levels."""
        levels: int = self.options["levels"]
        return levels

    def inputs(self, problem: OneShotProblem) -> Any:
        """Return what `forward` takes for a one-shot problem; by default its `Graph`."""
        return Graph.of(problem)

    @abstractmethod
    def forward(self, inputs: Any) -> Tensor:
        """Return logits float32[T, 2, L]; who asks masks the levels that are not worth asking for."""


class GraphPolicy(LevelNetwork):
    """Graph U-Net with an attention head for each sub-action, for any workload on machines with `levels` levels.

    Depth, width and the number of attention heads are those remembered of EGRL; the wiring is not published. Ours: Gao
    and Ji's Graph U-Net (2019), then for each sub-action one graph attention layer whose `attention_heads` heads are
    averaged into the logits of the levels.

    Args:
        levels: L.
        hidden: width.
        depth: poolings of the U-Net; each keeps half of the nodes.
        attention_heads: heads of each attention layer.
        skip: whether the node features are standardised for each program, and seen by the heads beside the embedding.
        lean: added to the initial logits of the backing memory, so that the first assignments mostly fit. EGRL starts
            from assignments with everything there; the paper does not say how.
    """

    KIND = "graph-policy/4"
    OPTIONS: ClassVar = {"levels": int, "hidden": int, "depth": int, "attention_heads": int, "skip": bool}

    def __init__(
        self,
        levels: int,
        hidden: int = 128,
        depth: int = 4,
        attention_heads: int = 4,
        skip: bool = False,
        lean: float = 0.0,
    ) -> None:
        super().__init__(levels)
        self.options |= {"hidden": hidden, "depth": depth, "attention_heads": attention_heads, "skip": skip}
        down = [_Convolution(inputs, hidden) for inputs in [len(FEATURES), *[hidden] * depth]]
        pools = [nn.Parameter(torch.empty(hidden)) for _ in range(depth)]
        up = [_Convolution(hidden, hidden) for _ in range(depth)]
        seen = hidden + skip * len(FEATURES)
        heads = [_Attention(seen, levels, attention_heads) for _ in range(SUB_ACTIONS)]
        self.down, self.pools, self.up = nn.ModuleList(down), nn.ParameterList(pools), nn.ModuleList(up)
        self.heads = nn.ModuleList(heads)
        # Glorot and Bengio's bounds (2010). The layers of torch-geometric draw the U-Net's weights three times and the
        # heads' linear ones twice; so does this, such that a seed gives the policy that it gave with them.
        drawn = 3 * [*(layer.weight for layer in down), *pools, *(layer.weight for layer in up)]
        for head in heads:
            drawn += [head.weight, head.weight, head.source, head.target]
        with torch.no_grad():
            for weight in drawn:
                bound = (6 / sum(weight.shape)) ** 0.5 if weight.ndim == 2 else len(weight) ** -0.5
                weight.uniform_(-bound, bound)
            for head in heads:
                head.bias[-1] += lean

    def forward(self, graph: Graph) -> Tensor:
        """Return logits float32[T, 2, L]; levels that are not worth asking for get the lowest finite number."""
        weights = {name: weight[None] for name, weight in self.named_parameters()}
        return PopulationForward(self, graph).logits(weights)[0]


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
        self._shapes = {name: weight.shape for name, weight in policy.named_parameters()}
        self._nodes, self._skips = graph.nodes, policy.options["skip"]
        if self._skips:
            spread, mean = torch.std_mean(graph.nodes, dim=0, correction=0)
            self._nodes = (graph.nodes - mean) / spread.clamp_min(_SAME)
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
        return self.logits(self.weights(genomes))

    def logits(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return logits float32[M, T, 2, L] of named weights [M, ...]; differentiable."""
        hidden = torch.relu(self._body(weights))
        if self._skips:
            hidden = torch.cat([hidden, self._nodes.expand(len(hidden), -1, -1)], dim=-1)
        logits = torch.stack([self._head(weights, f"heads.{head}", hidden) for head in range(SUB_ACTIONS)], dim=2)
        return logits.masked_fill(~self.graph.mask, torch.finfo(logits.dtype).min)

    def _body(self, weights: Mapping[str, Tensor]) -> Tensor:
        """Return the output of the Graph U-Net, float32[M, T, H]."""
        adjacency = self._adjacency
        hidden = torch.relu(_convolve(weights, "down.0", _normalised(adjacency), self._nodes[None]))
        skips = []
        # Each pass pools n nodes to k = ceil(n / 2): hidden [M, n, H] -> [M, k, H], adjacency [M, n, n] -> [M, k, k].
        for level in range(1, self.depth + 1):
            direction = weights[f"pools.{level - 1}"][:, None]  # [M, 1, H]
            score = torch.tanh((hidden * direction).sum(-1) / direction.norm(dim=-1))  # [M, n]
            kept = score.sort(dim=1, descending=True)[1][:, : ceil(score.shape[1] / 2)]  # [M, k], nodes of each member
            skips.append((hidden, _normalised(adjacency), kept))
            member = torch.arange(len(kept))[:, None]  # [M, 1], beside `kept` it picks each member's own nodes
            hidden = (hidden * score[..., None])[member, kept]
            reach = _two_steps(adjacency).expand(len(kept), -1, -1)
            adjacency = reach[member[..., None], kept[:, :, None], kept[:, None, :]]
            hidden = torch.relu(_convolve(weights, f"down.{level}", _normalised(adjacency), hidden))
        # And back up: the k nodes return to their places among the n, the others get 0, and what was skipped is added.
        for step, (skipped, fine, kept) in enumerate(reversed(skips)):
            index = kept[..., None].expand(-1, -1, hidden.shape[2])
            hidden = skipped + torch.zeros_like(skipped).scatter(1, index, hidden)
            hidden = _convolve(weights, f"up.{step}", fine, hidden)
            hidden = torch.relu(hidden) if step < self.depth - 1 else hidden
        return hidden

    def _head(self, weights: Mapping[str, Tensor], name: str, hidden: Tensor) -> Tensor:
        """Return the output float32[M, T, L] of one graph attention layer."""
        values = hidden @ weights[f"{name}.weight"].mT
        values = torch.unflatten(values, 2, (self.attention_heads, -1))  # [M, T, A, L]
        source_score = (values * weights[f"{name}.source"][:, None]).sum(-1)  # [M, T, A], likewise the next
        target_score = (values * weights[f"{name}.target"][:, None]).sum(-1)
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


class ForeignForward:
    """The forward pass of any `LevelNetwork` for any number of members on one workload; arguments as above.

    A network that `torch.func.vmap` cannot batch, such as one that draws random numbers, plays member by member.
    """

    def __init__(self, policy: LevelNetwork, problem: OneShotProblem) -> None:
        self.graph, self._policy = Graph.of(problem), policy
        with torch.no_grad():
            self._inputs = policy.inputs(problem)
            logits = policy(self._inputs)
            if logits.shape != self.graph.mask.shape:
                raise AgentError(
                    f"{type(policy).__name__} returned logits of shape {tuple(logits.shape)}; for "
                    f"{problem.program.name} they have the shape {tuple(self.graph.mask.shape)}."
                )
            self._batched = True
            try:
                self(torch.nn.utils.parameters_to_vector(policy.parameters()).expand(2, -1))
            except (RuntimeError, ValueError):
                self._batched = False

    def __call__(self, genomes: Tensor) -> Tensor:
        """Return logits float32[M, T, 2, L] of genomes float32[M, P]; differentiable."""
        names, weights = zip(*self._policy.named_parameters(), strict=True)

        def member(genome: Tensor) -> Tensor:
            parts = torch.split(genome, [weight.numel() for weight in weights])
            own = {name: part.view(like.shape) for name, part, like in zip(names, parts, weights, strict=True)}
            logits: Tensor = functional_call(self._policy, own, (self._inputs,))
            return logits

        logits = vmap(member)(genomes) if self._batched else torch.stack([member(genome) for genome in genomes])
        return logits.masked_fill(~self.graph.mask, torch.finfo(logits.dtype).min)


def forward_of(policy: LevelNetwork, problem: OneShotProblem) -> PopulationForward | ForeignForward:
    """Return the forward pass of a population of policies on a workload: batched by hand for ours alone.

    Raises:
        AgentError: if the network's logits have another shape than [T, 2, L].
    """
    if isinstance(policy, GraphPolicy) and type(policy).forward is GraphPolicy.forward:
        return PopulationForward(policy, policy.inputs(problem))
    return ForeignForward(policy, problem)


def _convolve(weights: Mapping[str, Tensor], name: str, normalised: Tensor, hidden: Tensor) -> Tensor:
    """Return a graph convolution, float32[M, n, H], of hidden float32[M, n, ...]."""
    return normalised @ hidden @ weights[f"{name}.weight"].mT + weights[f"{name}.bias"][:, None]


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
