"""Beyond the paper: policy gradients with a credit for each decision, instead of one reward for all.

The credit of a level for a decision is the time that the program would lose or gain if this decision alone requested
it, beside the other levels of a good assignment, by the op times that depend on it and as far as there is room. With a
credit for each level of each decision the gradient of the expected time is a sum over levels: nothing is sampled, and
no critic has to tell hundreds of decisions apart by one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from memplace_agents.egrl.actor import Actor, entropy_of, step
from memplace_agents.egrl.egrl_config import EGRLConfig
from memplace_agents.egrl.egrl_replay import EgrlReplay
from memplace_agents.egrl.surrogate import Surrogate
from memplace_agents.learning.graph_policy import Graph, GraphPolicy


class CreditLosses(NamedTuple):
    """Means over one gradient step.

    Attributes:
        lost: expected time that a decision loses, in units of the mean over decisions of the most that one can lose.
        entropy: nats for each decision that has a choice.
    """

    lost: float
    entropy: float


class CreditLearner(Actor):
    """An actor that learns from the credit of each decision, by the surrogates of the workloads.

    Args:
        config: rates and coefficients.
        graphs: the workloads, one or more.
        surrogates: their surrogates.
        policy: gives the shape and the first weights of the actor.
    """

    def __init__(
        self, config: EGRLConfig, graphs: Sequence[Graph], surrogates: Sequence[Surrogate], policy: GraphPolicy
    ) -> None:
        super().__init__(config, graphs, policy)
        self._surrogates = surrogates

    def learn(self, rng: np.random.Generator, replays: Sequence[EgrlReplay]) -> CreditLosses:
        """Do one step on the best of a batch of assignments, of a workload drawn at random."""
        index = int(rng.integers(len(replays)))
        graph = self._graphs[index]
        assignments, rewards = replays[index].sample(rng, self._config.batch)
        slower = self._surrogates[index].costs_alone(assignments[rewards.argmax()])
        most = np.abs(slower).max(axis=1)
        unit = most.sum() / max(np.count_nonzero(most), 1)
        lost = torch.from_numpy((slower / max(unit, 1e-300)).astype(np.float32)).view(graph.mask.shape)  # [T, 2, L]
        log_chances = self._forwards[index](self._actor[None])[0].log_softmax(-1)
        expected = (log_chances.exp() * lost).sum()
        entropy, free = entropy_of(graph, log_chances)
        step(self._actor_optimiser, expected - self._config.entropy * entropy)
        return CreditLosses(expected.item() / max(free, 1), entropy.item() / max(free, 1))
