"""Training of a policy on many programs: it imitates exact plans, then plays for reward."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memplace_agents.learning.flat_policy import FlatPolicy, clipped_gain, masked_log_softmax
from memplace_agents.learning.policy_file import fitting
from memplace_agents.learning.rollouts import Bools, Floats, Turn
from memplace_agents.learning.saved_tensors import load_optimiser, optimiser_state
from memplace_agents.learning.training import TrainingRun
from memplace_agents.policy.program_episodes import ProgramEpisodes
from memplace_env.program.program import Ints


@dataclass(frozen=True)
class PolicySettings:
    """Settings of a training run. All are our choice.

    Attributes:
        width: width of the two hidden layers.
        rate: learning rate of Adam; falls to 0 during the rounds of reward.
        imitation_rounds, reward_rounds: numbers of rounds.
        shown: programs that a round of imitation draws.
        copies: episodes of each; in half of them the policy decides, in the others the exact plan.
        random: probability of a random decision in the latter.
        steps: gradient steps in a round of imitation.
        played: programs that a round of reward draws.
        group: episodes of each, which are compared with each other.
        epochs, minibatch: passes over a round of reward, and decisions for each gradient step.
        decisions: most decisions of a program that a round of reward learns from.
        scale: advantage that counts as 1, in percent of the latency; five of them are the most that counts.
        clip: largest change of a probability that is rewarded.
        largest_kl: divergence from the policy that played, in nats, at which a round ends.
    """

    width: int = 128
    rate: float = 1e-3
    imitation_rounds: int = 40
    reward_rounds: int = 60
    shown: int = 8
    copies: int = 2
    random: float = 0.02
    steps: int = 8
    played: int = 4
    group: int = 16
    epochs: int = 2
    minibatch: int = 2048
    decisions: int = 1500
    scale: float = 0.3
    clip: float = 0.2
    largest_kl: float = 0.01


class PolicyBatch(NamedTuple):
    """Decisions with a choice to learn from, N rows.

    Attributes:
        observation: float32[N, F].
        legal: bool[N, 3].
        action: int64[N], the answer, or what was played.
        log_prob: float32[N], of the action under the policy that played.
        advantage: float32[N], in units of `PolicySettings.scale`.
    """

    observation: Floats
    legal: Bools
    action: Ints
    log_prob: Floats
    advantage: Floats

    def rows(self, rows: Ints) -> PolicyBatch:
        """Return some of the decisions."""
        columns: Any = [column[rows] for column in self]
        return PolicyBatch(*columns)


class PolicyRun(TrainingRun[FlatPolicy]):
    """Rounds of imitation, then rounds of reward; `state_dict` resumes to the same bits.

    In a round of reward, the episodes of a program are compared with each other: an action's advantage is the reward
    from there on, less the group's mean from the same decision on. Rewards tell what a decision changes at once, but
    what it displaces comes much later, so all later rewards count.

    Args:
        settings: every constant.
        programs: the programs, all with the same features.
        exact: int64[E] for each program, the actions of its exact plan.
        seed: seed of all randomness.
    """

    def __init__(
        self, settings: PolicySettings, programs: Sequence[ProgramEpisodes], exact: Sequence[Ints], seed: int
    ) -> None:
        super().__init__(seed)
        self.settings, self._programs, self._exact = settings, programs, exact
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            torch.manual_seed(seed)
            self._policy = FlatPolicy(programs[0].inputs, settings.width, ProgramEpisodes.actions)
        self._optimiser = torch.optim.Adam(self._policy.parameters(), settings.rate)

    @property
    def done(self) -> bool:
        """True after the last round of reward."""
        return self.round >= self.settings.imitation_rounds + self.settings.reward_rounds

    @property
    def policy(self) -> FlatPolicy:
        """The policy learned so far."""
        return self._policy

    def begin(self) -> None:
        """Do nothing: no plans are known before training."""

    def step(self) -> None:
        """Do one round."""
        if self.round < self.settings.imitation_rounds:
            self._imitate()
        else:
            self._play()
        self.round += 1

    def _drawn(self, count: int) -> list[int]:
        drawn: list[int] = self._rng.choice(
            len(self._programs), min(count, len(self._programs)), replace=False
        ).tolist()
        return drawn

    def _imitate(self) -> None:
        shown = [self._shown(index) for index in self._drawn(self.settings.shown)]
        for _ in range(self.settings.steps):
            losses = [-self._log_probs(decisions).mean() for decisions in shown if len(decisions.action)]
            self._step(torch.stack(losses).mean())

    def _shown(self, index: int) -> PolicyBatch:
        """Return decisions of a program with the exact plan's answers, or the next slower level that has room."""
        episodes, copies = self._programs[index], self.settings.copies
        episodes.begin(copies)
        rows, numbers, policy_plays = [], np.arange(ProgramEpisodes.actions), np.arange(copies) % 2 == 1
        for wanted in self._exact[index]:
            turn = episodes.turn()
            answer = (turn.legal & (numbers >= wanted)).argmax(axis=1)
            rows.append((turn.observation, turn.legal, answer, *np.zeros((2, copies), dtype=np.float32)))
            anything = np.where(turn.legal, self._rng.random(turn.legal.shape), -1.0).argmax(axis=1)
            shown = np.where(self._rng.random(copies) < self.settings.random, anything, answer)
            episodes.decide(np.where(policy_plays, chosen(self._policy, turn, None)[0], shown))
        return _with_choice(rows)

    def _play(self) -> None:
        """Play a group of episodes of each program drawn, and learn from all of them together."""
        settings, played = self.settings, [self._played(index) for index in self._drawn(self.settings.played)]
        columns: list[Any] = [np.concatenate(column) for column in zip(*played, strict=True)]
        batch = PolicyBatch(*columns)
        left = 1 - (self.round - settings.imitation_rounds) / settings.reward_rounds
        self._optimiser.param_groups[0]["lr"] = settings.rate * left
        for _ in range(settings.epochs):
            order = self._rng.permutation(len(batch.action))
            for rows in np.array_split(order, -(-len(order) // settings.minibatch)):
                part = batch.rows(rows)
                change = self._log_probs(part) - torch.from_numpy(part.log_prob)
                if float((change.exp() - 1 - change).detach().mean()) > settings.largest_kl:
                    return
                self._step(-clipped_gain(change, torch.from_numpy(part.advantage), settings.clip).mean())

    def _played(self, index: int) -> PolicyBatch:
        """Return decisions of a group of episodes of a program, by the policy at random, with their advantages."""
        episodes, rows, rewards = self._programs[index], [], []
        episodes.begin(self.settings.group)
        for _ in range(episodes.length):
            turn = episodes.turn()
            action, log_prob = chosen(self._policy, turn, self._rng)
            rewards.append(episodes.step(action)[0])
            rows.append((turn.observation, turn.legal, action, log_prob))
        advantage = group_advantages(np.stack(rewards)) / self.settings.scale
        limited = advantage.clip(-5, 5).astype(np.float32)
        decisions = _with_choice([(*row, gained) for row, gained in zip(rows, limited, strict=True)])
        return decisions.rows(self._rng.permutation(len(decisions.action))[: self.settings.decisions])

    def _log_probs(self, decisions: PolicyBatch) -> Tensor:
        """Return float32[N], logarithms of the probabilities of the actions."""
        logits = self._policy(torch.from_numpy(decisions.observation))
        log_policy = masked_log_softmax(logits, torch.from_numpy(decisions.legal))
        return log_policy.gather(1, torch.from_numpy(decisions.action)[:, None])[:, 0]

    def _step(self, loss: Tensor) -> None:
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self._policy.parameters(), 0.5)
        self._optimiser.step()

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides how the run goes on, as tensors and plain values."""
        own = {"policy": self._policy.state_dict(), "optimiser": optimiser_state(self._optimiser)}
        return super().state_dict() | own

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        super().load_state_dict(state)
        self._policy.load_state_dict(fitting(state["policy"], self._policy.state_dict()))
        load_optimiser(self._optimiser, state["optimiser"])


def group_advantages(rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return float64[T, B], rewards from each decision on, less their mean over the B episodes."""
    later = rewards[::-1].cumsum(axis=0)[::-1]
    advantages: NDArray[np.float64] = later - later.mean(axis=1, keepdims=True)
    return advantages


def chosen(
    policy: FlatPolicy, turn: Turn, rng: np.random.Generator | None, bias: NDArray[np.float32] | None = None
) -> tuple[Ints, Floats]:
    """Return int64[B], likeliest actions, or with `rng` sampled ones, and their log-probabilities float32[B].

    Args:
        policy: gives logits.
        turn: the decisions.
        rng: draws; None for the likeliest.
        bias: float32[3], added to the logits.
    """
    with torch.no_grad():
        logits = policy(torch.from_numpy(turn.observation))
        logits = logits if bias is None else logits + torch.from_numpy(bias)
        log_policy = masked_log_softmax(logits, torch.from_numpy(turn.legal)).numpy()
    noise = 0.0 if rng is None else rng.gumbel(size=log_policy.shape)
    action = (log_policy + noise).argmax(axis=1)
    return action, log_policy[np.arange(len(action)), action]


def played_ps(
    policy: FlatPolicy, episodes: ProgramEpisodes, count: int, rng: np.random.Generator | None, caution: float = 0.0
) -> Ints:
    """Return int64[count], latencies of plans that the policy makes, ps.

    Args:
        policy: decides.
        episodes: the program.
        count: number of plans.
        rng: samples them; None for the likeliest actions.
        caution: added to the logit of what the best rule does; large enough, it makes the rule's plan.
    """
    episodes.begin(count)
    bias = caution * np.eye(episodes.actions, dtype=np.float32)
    for base in episodes.base:
        episodes.decide(chosen(policy, episodes.turn(), rng, bias[base])[0])
    return episodes.latency_ps()


def _with_choice(rows: Sequence[tuple[NDArray[Any], ...]]) -> PolicyBatch:
    """Return the decisions that have more than one legal action, of T turns with B episodes."""
    columns: list[Any] = [np.concatenate(column) for column in zip(*rows, strict=True)]
    return PolicyBatch(*columns).rows(np.flatnonzero(columns[1].sum(axis=1) > 1))
