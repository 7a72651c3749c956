"""The actor of the policy-gradient half: a graph policy and its optimiser.

In shapes `T` denotes the ops of a workload, `S` the decisions of an assignment, `L` the levels, `M` the members of a
population and `P` the weights of a graph policy.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memplace_agents.egrl.egrl_config import EGRLConfig
from memplace_agents.egrl.egrl_replay import EgrlReplay
from memplace_agents.egrl.population import genome_of
from memplace_agents.learning.batched_policies import PopulationForward
from memplace_agents.learning.graph_policy import Graph, GraphPolicy
from memplace_agents.learning.saved_tensors import like, load_optimiser, optimiser_state


class Actor(ABC):
    """One genome like any graph policy of the population, which learns; a subclass says how.

    Args:
        config: widths, rates and coefficients.
        graphs: the workloads, one or more.
        policy: gives the shape and the first weights.
    """

    def __init__(self, config: EGRLConfig, graphs: Sequence[Graph], policy: GraphPolicy) -> None:
        self._config = config
        self._graphs = graphs
        self._forwards = [PopulationForward(policy, graph) for graph in graphs]
        self._actor = nn.Parameter(torch.from_numpy(genome_of(policy)))
        self._actor_optimiser = torch.optim.Adam([self._actor], lr=config.learning_rate)

    @property
    def genome(self) -> NDArray[np.float32]:
        """float32[P], a copy of the weights."""
        return self._actor.detach().numpy().copy()

    def posterior(self, genomes: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return probabilities float32[M, S, L] of genomes float32[M, P]; S runs over all workloads in a row."""
        with torch.no_grad():
            members = torch.from_numpy(genomes)
            logits = torch.cat([forward(members).flatten(1, 2) for forward in self._forwards], dim=1)
            chances: NDArray[np.float32] = logits.softmax(-1).numpy()
        return chances

    @abstractmethod
    def learn(self, rng: np.random.Generator, replays: Sequence[EgrlReplay]) -> Any:
        """Do one step on a workload drawn at random; return the losses, a named tuple.

        Args:
            rng: generator of all randomness.
            replays: replay buffers of the workloads, in the order of their graphs.
        """

    def state_dict(self) -> dict[str, Any]:
        """Return all that `load_state_dict` needs, tensors and plain values."""
        return {"actor": self._actor.detach(), "actor_optimiser": optimiser_state(self._actor_optimiser)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        with torch.no_grad():
            self._actor.copy_(torch.from_numpy(like(state["actor"], self.genome)))
        load_optimiser(self._actor_optimiser, state["actor_optimiser"])


def entropy_of(graph: Graph, log_chances: Tensor) -> tuple[Tensor, int]:
    """Return the entropy in nats of all decisions with a choice, by log-probabilities [T, 2, L], and their number."""
    free = graph.mask.sum(-1) > 1
    negative = torch.where(graph.mask, log_chances.exp() * log_chances, 0.0).sum(-1)  # [T, 2]
    return -negative[free].sum(), int(free.sum())


def step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """Do one step of an optimiser down the gradient of a loss."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
