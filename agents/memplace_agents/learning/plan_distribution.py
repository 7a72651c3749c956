"""A distribution over the plans of a program, learned from the best of each round.

In shapes `N` denotes the plans of a round, `M` the decisions and `L` the levels or actions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from memplace_agents.learning.settings import check_settings
from memplace_agents.search.factored_programs import FactoredDecisions
from memplace_env.program.program import Ints

ENTROPY = 0.1
"""Weight of the entropy, in nats a decision; falls to 0 with the fraction of the budget that is left.
Our choice, as all that follow."""
TOGETHER = 0.5
"""`DistributionSettings.together` of maps, and of long runs of games; falls like the entropy."""
BEST = 0.2
"""Fraction of a round that gets credit."""
IMITATION = 0.2
"""Weight of the cross-entropy of the best plans."""
FEW_ROUNDS, SLOWER, SLOWEST = 125, 0.7, 0.04
"""Rounds up to which rates are as they are set; the exponent by which they fall with more of them, down to a tenth."""
_MEAN_DECAY, _SQUARE_DECAY, _LEAST = 0.9, 0.999, 1e-8
"""Adam's constants, those of Kingma and Ba (arXiv 1412.6980)."""


@dataclass(frozen=True)
class DistributionSettings:
    """Settings of `PlanDistribution`; all are our choice.

    Attributes:
        samples: most plans of a round; of a small budget fewer, see `for_budget`.
        least_samples: least plans of a round.
        growth: plans of a round over the square root of the budget, between these.
        table_rate: Adam's learning rate of the logits.
        lean: logit of the first level, the fastest, over the others before learning.
        start: the same of what the best plan decides that is known without a search.
        together: fraction of a round in which decisions that are alike share the number that draws them, at first;
            falls to `TOGETHER` in longer runs.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """

    samples: int = 128
    least_samples: int = 8
    growth: float = 0.25
    table_rate: float = 0.2
    lean: float = 1.0
    start: float = 1.0
    together: float = TOGETHER

    def __post_init__(self) -> None:
        check_settings(self, at_least_one=("samples", "least_samples"), shares=("together",))

    def for_budget(self, budget: int) -> Self:
        """Return the settings for so many plans: longer runs learn more slowly, and trust their start less."""
        samples = min(max(int(self.growth * budget**0.5), self.least_samples), self.samples)
        slow = min(max(FEW_ROUNDS * samples / max(budget, 1), SLOWEST), 1.0) ** SLOWER
        together = max(self.together * slow, min(self.together, TOGETHER))
        return replace(
            self, samples=samples, table_rate=self.table_rate * slow, start=self.start * slow, together=together
        )


class PlanDistribution:
    """A distribution over plans in which all decisions are independent.

    The logits of a decision are its own plus those of its role, which all decisions that are alike share. A round moves
    them along the gradient of the credited plans' log-likelihood, as the cross-entropy method moves its distribution to
    the best samples (Rubinstein, 1999), with rank weights (Hansen, arXiv 1604.00772).

    Args:
        settings: every constant.
        decisions: what is decided.

    Attributes:
        settings: as given; others may take their place between rounds.
        logits: float64[M, L], each decision's own; -inf where a level is illegal.
        role_logits: float64[R, L], those of each number in `FactoredDecisions.alike`; R is 0 if no decisions are alike.
    """

    def __init__(self, settings: DistributionSettings, decisions: FactoredDecisions) -> None:
        self.settings, self._decisions = settings, decisions
        alike = np.zeros(0, dtype=np.int64) if decisions.alike is None else decisions.alike
        count, members = len(decisions.legal), np.bincount(alike)
        self._twins = members[alike] > 1
        self._tables = np.zeros((count + len(members), decisions.legal.shape[1]))
        self.logits, self.role_logits = self._tables[:count], self._tables[count:]
        self.logits[~decisions.legal] = -np.inf
        self.logits[:, 0] += settings.lean
        self._mean, self._square, self._rounds = np.zeros_like(self._tables), np.zeros_like(self._tables), 0
        self._start: Ints | None = None

    def start_from(self, levels: Ints) -> None:
        """Make levels int64[M] likelier, by the `start` of the settings of the time."""
        self._start = levels

    def probabilities(self) -> NDArray[np.float64]:
        """Return float64[M, L], the probabilities of the levels."""
        logits = self.logits.copy()
        if self._decisions.alike is not None:
            logits += self.role_logits[self._decisions.alike]
        if self._start is not None:
            logits[np.arange(len(logits)), self._start] += self.settings.start
        scaled = np.exp(logits - logits.max(axis=1, keepdims=True))
        policy: NDArray[np.float64] = scaled / scaled.sum(axis=1, keepdims=True)
        return policy

    def sample(self, count: int, rng: np.random.Generator, left: float) -> Ints:
        """Return levels int64[count, M], with the fraction `left` of the budget."""
        total = self.probabilities().cumsum(axis=1)
        share = (total / total[:, -1:])[:, :-1]
        return drawn_levels(share, count, rng, self._decisions.alike, self.settings.together * left)

    def learn(self, levels: Ints, latencies: NDArray[np.float64], best: Ints, left: float) -> None:
        """Move the logits by a round.

        Args:
            levels: int64[N, M], what was sampled.
            latencies: float64[N].
            best: int64[K, M], the best levels so far; K may be 0.
            left: fraction of the budget that is left.
        """
        settings, policy = self.settings, self.probabilities()
        # The mean of the credits is 0, so that the probabilities fall out of the gradient of the log-likelihood.
        gradient = self._counts(levels, credit(latencies, BEST)) / len(levels)
        if len(best):
            gradient += IMITATION * (self._counts(best, np.ones(len(best))) / len(best) - policy)
        log_policy = np.log(policy, out=np.zeros_like(policy), where=policy > 0)
        surplus = log_policy - (policy * log_policy).sum(axis=1, keepdims=True)
        gradient -= ENTROPY * left * policy * surplus
        by_role = np.zeros_like(self.role_logits)
        if self._decisions.alike is not None:
            np.add.at(by_role, self._decisions.alike[self._twins], gradient[self._twins])
        gradient = np.concatenate([gradient, by_role])
        self._rounds += 1
        self._mean += (1 - _MEAN_DECAY) * (gradient - self._mean)
        self._square += (1 - _SQUARE_DECAY) * (gradient**2 - self._square)
        mean = self._mean / (1 - _MEAN_DECAY**self._rounds)
        deviation = np.sqrt(self._square / (1 - _SQUARE_DECAY**self._rounds))
        self._tables += settings.table_rate * mean / (deviation + _LEAST)

    def _counts(self, levels: Ints, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return float64[M, L], the weights float64[N] of the plans that take each level."""
        count, size = self.logits.shape
        entries = (levels + size * np.arange(count)).ravel()
        counts: NDArray[np.float64] = np.bincount(entries, np.repeat(weights, count), count * size).astype(np.float64)
        return counts.reshape(count, size)


def drawn_levels(
    share: NDArray[np.floating], count: int, rng: np.random.Generator, alike: Ints | None, together: float
) -> Ints:
    """Return levels int64[count, M].

    Args:
        share: float[M, L - 1], the probability of each level or one before it; 1 is never below a number in [0, 1).
        count: number of plans.
        rng: draws the levels.
        alike: int64[M], see `FactoredDecisions`.
        together: fraction of the plans in which decisions that are alike share a number.
    """
    drawn = rng.random((count, len(share)), dtype=np.float32)
    if alike is not None:
        one_number = round(count * together)
        drawn[:one_number] = drawn[:one_number, alike]
    levels: Ints = (drawn[..., None] >= share).sum(-1)
    return levels


def credit(latencies: NDArray[np.float64], best: float) -> NDArray[np.float64]:
    """Return float64[N] with mean 0: logarithmic weights for the fastest part, less the mean of all.

    Args:
        latencies: float64[N].
        best: fraction that gets more than the others.
    """
    count = max(round(best * len(latencies)), 1)
    weights = np.zeros(len(latencies))
    order = np.argsort(latencies, kind="stable")[:count]
    weights[order] = np.log(count + 0.5) - np.log(np.arange(1, count + 1))
    centred: NDArray[np.float64] = weights * len(weights) / weights.sum() - 1
    return centred
