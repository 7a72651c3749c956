"""A learner of assignments and of games: all decisions at once, and credit for the best of a round.

In shapes `N` denotes the assignments or games of a round, `M` the decisions and `L` the levels or actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memplace_agents.learning.flat_policy import FlatPolicy, clipped_gain, masked_log_softmax
from memplace_agents.learning.on_policy_settings import check_settings
from memplace_agents.learning.policy_file import fitting
from memplace_agents.learning.saved_tensors import load_optimiser, optimiser_state
from memplace_env._lib.errors import AgentError
from memplace_env.program.program import Ints

FEW_ROUNDS, SLOWER, SLOWEST = 125, 0.7, 0.04
"""Rounds for which rates are as they are set; the exponent by which they fall with more of them, down to a tenth."""


@dataclass(frozen=True)
class FactoredSettings:
    """Settings of `FactoredLearner`; all are our choice.

    Attributes:
        samples: plans of a round; of a small budget fewer, see `for_budget`.
        least_samples: least plans of a round.
        epochs: gradient steps on a round; fewer if the policy changes more than `largest_kl`.
        rate: Adam's learning rate of the network.
        table_rate: Adam's learning rate of the tables.
        entropy: weight of the entropy, in nats a decision; falls to 0 with the fraction of the budget that is left.
        together: fraction of a round in which decisions that are alike share the number that draws them; falls like
            `entropy`.
        best: fraction of a round that gets credit.
        imitation: weight of the cross-entropy of the best plans.
        width: width of the two hidden layers.
        lean: logit of the first level, the fastest, over the others before learning.
        start: the same of what the best plan decides that is known without a search.
        clip: largest change of a probability that is rewarded; 0 for no limit, the plain policy gradient.
        largest_kl: divergence from the policy that played, in nats a decision, at which a round's epochs end.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """

    samples: int = 128
    least_samples: int = 32
    epochs: int = 2
    rate: float = 1e-3
    table_rate: float = 0.1
    entropy: float = 0.1
    together: float = 0.5
    best: float = 0.2
    imitation: float = 0.2
    width: int = 64
    lean: float = 1.0
    start: float = 1.0
    clip: float = 0.2
    largest_kl: float = 0.05

    def __post_init__(self) -> None:
        check_settings(self, at_least_one=("samples", "least_samples", "epochs", "width"))
        if not 0 < self.best <= 1:
            raise AgentError(f"best must be above 0 and at most 1, not {self.best}.")
        if self.together > 1:
            raise AgentError(f"together must be at most 1, not {self.together}.")

    def for_budget(self, budget: int) -> FactoredSettings:
        """Return the settings for so many plans: longer runs learn more slowly, and trust their start less."""
        samples = min(max(budget // FEW_ROUNDS, self.least_samples), self.samples)
        slow = min(max(FEW_ROUNDS * samples / max(budget, 1), SLOWEST), 1.0) ** SLOWER
        return replace(self, samples=samples, table_rate=self.table_rate * slow, start=self.start * slow)


class EntryDecisions(NamedTuple):
    """The decisions of a program that are taken at once.

    Attributes:
        features: float32[M, F], what the network sees of each.
        legal: bool[M, L], levels that each may take.
        alike: int64[M], number of the decisions to which each belongs that are often good together; None if none are.
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
    Credit goes to the best part of a round only, by rank: what is wanted is one fast plan, and the mean of a policy is
    ruled by the samples for which no addresses were left (risk-seeking policy gradients, Petersen et al.,
    arXiv 1912.04871; weights as in Hansen, arXiv 1604.00772).

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
                {"params": [*policy.parameters()], "lr": settings.rate},
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
        share = (total / total[:, -1:])[:, :-1].numpy()  # a share of 1 is never below a number in [0, 1)
        drawn = rng.random((count, len(share)), dtype=np.float32)
        alike = self._programs[program].alike
        if alike is not None:
            together = round(count * self.settings.together * left)
            drawn[:together] = drawn[:together, alike]
        levels: Ints = (drawn[..., None] >= share).sum(-1)
        return levels

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
        credits = [torch.from_numpy(credit(latencies, settings.best)) for _, latencies in sampled]
        entropy_sum = divergence = 0.0
        for _ in range(settings.epochs):
            loss, entropy_sum, divergence = torch.zeros(()), 0.0, 0.0
            for program, (levels, _) in enumerate(sampled):
                log_prob, log_policy = self._chosen(program, levels)
                change = log_prob - before[program]
                divergence += float((change.exp() - 1 - change).detach().mean()) / size
                entropy = -(log_policy.exp() * log_policy).sum(-1)
                gain = clipped_gain(change, credits[program][:, None], settings.clip).mean(0).sum()
                loss = loss - gain - settings.entropy * left * entropy.sum()
                if len(best[program]):
                    loss = loss - settings.imitation * self._chosen(program, best[program])[0].mean(0).sum()
                entropy_sum += float(entropy.detach().mean()) / size
            if divergence > settings.largest_kl:
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


def credit(latencies: NDArray[np.float64], best: float) -> NDArray[np.float32]:
    """Return float32[N] with mean 0: logarithmic weights for the fastest part, less the mean of all.

    Args:
        latencies: float64[N].
        best: fraction that gets more than the others.
    """
    count = max(round(best * len(latencies)), 1)
    weights = np.zeros(len(latencies))
    order = np.argsort(latencies, kind="stable")[:count]
    weights[order] = np.log(count + 0.5) - np.log(np.arange(1, count + 1))
    centred: NDArray[np.float64] = weights * len(weights) / weights.sum() - 1
    return centred.astype(np.float32)
