"""A learner of assignments and of games: all decisions at once, and credit for the best of a round.

In shapes `N` denotes the assignments or games of a round, `M` the decisions and `L` the levels or actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memplace_agents.learning.flat_policy import FlatPolicy, clipped_gain, masked_log_softmax
from memplace_agents.learning.plan_distribution import (
    BEST,
    ENTROPY,
    IMITATION,
    DistributionSettings,
    credit,
    drawn_levels,
)
from memplace_agents.learning.policy_file import fitting
from memplace_agents.learning.saved_tensors import load_optimiser, optimiser_state
from memplace_agents.learning.settings import check_settings
from memplace_env.program.program import Ints

RATE = 1e-3
"""Adam's learning rate of the network; our choice."""
CLIP = 0.2
"""Largest change of a probability that is rewarded; our choice."""
LARGEST_KL = 0.05
"""Divergence from the policy that played, in nats a decision, at which a round's epochs end; our choice."""


@dataclass(frozen=True)
class FactoredSettings(DistributionSettings):
    """Settings of `FactoredLearner`: those of `PlanDistribution`, and of the network; all are our choice.

    Attributes:
        epochs: gradient steps on a round; fewer if the policy changes more than `LARGEST_KL`.
        width: width of the two hidden layers.
    """

    table_rate: float = 0.1
    epochs: int = 2
    width: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check_settings(self, at_least_one=("epochs", "width"))


class EntryDecisions(NamedTuple):
    """The decisions of a program that are taken at once, as a network sees them.

    Attributes:
        features: float32[M, F].
        legal, alike: as in `FactoredDecisions`.
    """

    features: Tensor
    legal: Tensor
    alike: Ints | None = None

    @property
    def inputs(self) -> int:
        """Number of features of a decision."""
        return self.features.shape[1]

    @property
    def actions(self) -> int:
        """Number of levels, or of actions."""
        return self.legal.shape[1]


class FactoredLearner:
    """A policy in training that takes all decisions of a plan independently.

    Logits of a decision are those of a network on its features, which all programs share, plus a table of the program.
    Credit goes to the best part of a round only, by rank, as in `PlanDistribution`: what is wanted is one fast plan,
    and the mean of a policy is ruled by the samples for which no addresses were left (risk-seeking policy gradients,
    Petersen et al., arXiv 1912.04871).

    Args:
        settings: every constant.
        policy: the network, trained in place.
        programs: the decisions of each program.

    Attributes:
        settings: as given; others may take their place between rounds.
        policy: as given.
        tables: float32[M, L] for each program.
    """

    def __init__(self, settings: FactoredSettings, policy: FlatPolicy, programs: Sequence[EntryDecisions]) -> None:
        self.settings, self.policy, self._programs = settings, policy, programs
        self.tables = nn.ParameterList(torch.zeros(program.legal.shape) for program in programs)
        self._lean = torch.zeros(policy.options["actions"])
        self._lean[0] = settings.lean
        self._optimiser = torch.optim.Adam(
            [
                {"params": [*policy.parameters()], "lr": RATE},
                {"params": [*self.tables], "lr": settings.table_rate},
            ]
        )

    def log_policy(self, program: int) -> Tensor:
        """Return float32[M, L], logarithms of the levels' probabilities."""
        decisions = self._programs[program]
        logits = self.policy(decisions.features) + self.tables[program] + self._lean
        return masked_log_softmax(logits, decisions.legal)

    @torch.no_grad()
    def start_from(self, levels: Ints, program: int) -> None:
        """Make levels int64[M] of a program likelier."""
        self.tables[program][torch.arange(len(levels)), torch.from_numpy(levels)] += self.settings.start

    @torch.no_grad()
    def sample(self, count: int, rng: np.random.Generator, program: int, left: float) -> Ints:
        """Return levels int64[count, M] drawn by the policy, with the fraction `left` of the budget."""
        total = self.log_policy(program).exp().cumsum(-1)
        share = (total / total[:, -1:])[:, :-1].numpy()
        return drawn_levels(share, count, rng, self._programs[program].alike, self.settings.together * left)

    def learn(
        self, sampled: Sequence[tuple[Ints, NDArray[np.float64]]], best: Sequence[Ints], left: float
    ) -> dict[str, float]:
        """Improve the policy by a round of each program; return figures of the round by name.

        Args:
            sampled: levels int64[N, M] of each program and their latencies float64[N].
            best: the best levels int64[K, M] of each program so far; K may be 0.
            left: fraction of the budget that is left.
        """
        settings, size = self.settings, len(sampled)
        with torch.no_grad():
            before = [self._chosen(program, levels)[0] for program, (levels, _) in enumerate(sampled)]
        credits = [torch.from_numpy(credit(latencies, BEST)).float() for _, latencies in sampled]
        entropy_sum = divergence = 0.0
        for _ in range(settings.epochs):
            loss, entropy_sum, divergence = torch.zeros(()), 0.0, 0.0
            for program, (levels, _) in enumerate(sampled):
                log_prob, log_policy = self._chosen(program, levels)
                change = log_prob - before[program]
                divergence += float((change.exp() - 1 - change).detach().mean()) / size
                entropy = -(log_policy.exp() * log_policy).sum(-1)
                gain = clipped_gain(change, credits[program][:, None], CLIP).mean(0).sum()
                loss = loss - gain - ENTROPY * left * entropy.sum()
                if len(best[program]):
                    loss = loss - IMITATION * self._chosen(program, best[program])[0].mean(0).sum()
                entropy_sum += float(entropy.detach().mean()) / size
            if divergence > LARGEST_KL:
                break
            self._optimiser.param_groups[-1]["lr"] = settings.table_rate
            self._optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()
        return {"entropy": entropy_sum, "divergence": divergence}

    def _chosen(self, program: int, levels: Ints) -> tuple[Tensor, Tensor]:
        """Return log-probabilities float32[N, M] of levels, and the policy float32[M, L]."""
        log_policy = self.log_policy(program)
        index = torch.from_numpy(levels)[..., None]
        return log_policy.expand(len(levels), -1, -1).gather(-1, index)[..., 0], log_policy

    def state_dict(self) -> dict[str, Any]:
        """Return weights, tables and the optimiser's memory."""
        return {
            "policy": self.policy.state_dict(),
            "tables": self.tables.state_dict(),
            "optimiser": optimiser_state(self._optimiser),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        for module, name in ((self.policy, "policy"), (self.tables, "tables")):
            module.load_state_dict(fitting(state[name], module.state_dict()))
        load_optimiser(self._optimiser, state["optimiser"])
