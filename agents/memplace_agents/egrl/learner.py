"""The paper's policy-gradient half: discrete soft actor-critic on assignments that the whole population tried.

Episodes have one step, so the target of a critic is the reward itself: there is nothing to bootstrap, and the paper's
target networks and discount have no effect. The paper leaves open, and our choice are: the critics' network, how the
actor's gradient passes a sampled assignment (straight-through Gumbel softmax), and that it follows the smaller critic.

In shapes `B` denotes the assignments of a batch, `T` the ops of a workload, `S` the decisions of an assignment, `L` the
levels, `M` the members of a population, `P` the weights of a graph policy and `W` the width of the critics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memplace_agents.egrl.egrl_config import EGRLConfig
from memplace_agents.egrl.egrl_replay import EgrlReplay
from memplace_agents.egrl.population import genome_of
from memplace_agents.learning.graph_policy import SUB_ACTIONS, ForeignForward, Graph, LevelNetwork, PopulationForward
from memplace_agents.learning.policy_file import fitting
from memplace_agents.learning.saved_tensors import like, load_optimiser, numbers, optimiser_state
from memplace_agents.saved_values import number, whole
from memplace_env.envs.one_shot.observation import FEATURES

Forward = PopulationForward | ForeignForward

_CRITIC_WIDTH = 32
"""Width of the critics; our choice."""
ACTOR_EVERY = 2
"""Gradient steps of the critics for each of the actor (lineage: TD3's delayed policy update)."""
ENTROPY = 0.01
"""Coefficient of the entropy of the whole assignment, the sum over its decisions. EGRL's is remembered as 0.05, of an
unknown quantity; with the sum, 0.01 did better on the two ResNets."""
REWARD_SCALE = 5.0
"""Factor on the rewards that the critics learn (EGRL: 5)."""
NOISE, NOISE_LIMIT = 0.2, 0.5
"""Noise on the one-hot actions that the critics learn from, and its limit (TD3: 0.2, 0.5)."""
_OWN, _LEAST, _MOST = 100, 1e-6, 3.0
"""The actor's own last rewards, to which the fittest are compared; the least standard deviation of rewards, and the
largest weight of an imitated assignment. Our choice, as the next."""
_IMITATIONS = 2
"""Gradient steps of imitation alone, after one that follows the actor's own assignments, too."""


class EgrlLosses(NamedTuple):
    """Means over one gradient step.

    Attributes:
        critic: squared error of both critics.
        value: the critics' value of the actor's assignments, in units of reward.
        entropy: nats for each decision that has a choice.
    """

    critic: float
    value: float
    entropy: float


class EgrlCritic(nn.Module):
    """Value of an assignment: each op looks at its own levels and its neighbours', the mean over ops is the value.

    A latency is a sum over ops whose times depend on the levels of the tensors that they read and write: one graph
    convolution sees just these.
    """

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.state = nn.Linear(len(FEATURES), _CRITIC_WIDTH)
        self.action = nn.Linear(SUB_ACTIONS * levels, _CRITIC_WIDTH, bias=False)
        self.own = nn.Linear(_CRITIC_WIDTH, _CRITIC_WIDTH)
        self.neighbours = nn.Linear(_CRITIC_WIDTH, _CRITIC_WIDTH, bias=False)
        self.value = nn.Linear(_CRITIC_WIDTH, 1)

    def forward(self, graph: Graph, actions: Tensor) -> Tensor:
        """Return values float32[B] of actions float32[B, T, 2, L], near one-hot."""
        by_op = actions.flatten(2).transpose(0, 1)  # [T, B, 2 L]
        hidden = torch.relu(self.state(graph.nodes)[:, None] + self.action(by_op))  # [T, B, W]
        sent = self.neighbours(hidden)
        received = torch.sparse.mm(graph.adjacency, sent.flatten(1)).view_as(sent)  # sums over neighbours
        value: Tensor = self.value(torch.relu(self.own(hidden) + received))[..., 0].mean(0)
        return value


class Learner:
    """The actor, one genome like any graph policy of the population, twin critics and their optimisers.

    Args:
        config: widths, rates and coefficients.
        forwards: the forward passes of the policy on the workloads, one or more.
        policy: gives the shape and the first weights of the actor.
    """

    def __init__(self, config: EGRLConfig, forwards: Sequence[Forward], policy: LevelNetwork) -> None:
        self._config, self._forwards = config, forwards
        self._own = [deque[float](maxlen=_OWN) for _ in forwards]  # the actor's own last rewards on each workload
        self._actor = nn.Parameter(torch.from_numpy(genome_of(policy)))
        self._actor_optimiser = torch.optim.Adam([self._actor], lr=config.learning_rate)
        self._critics = nn.ModuleList(EgrlCritic(policy.levels) for _ in range(2))
        self._critic_optimiser = torch.optim.Adam(self._critics.parameters(), lr=config.learning_rate)
        self._calls, self._last = 0, (0.0, 0.0)

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

    def learn(self, rng: np.random.Generator, replays: Sequence[EgrlReplay]) -> EgrlLosses:
        """Do a step of the critics and, every `ACTOR_EVERY` calls, of the actor, on a workload drawn at random.

        Args:
            rng: generator of all randomness.
            replays: replay buffers of the workloads, in the order of their forward passes.
        """
        index = int(rng.integers(len(replays)))
        forward, config = self._forwards[index], self._config
        graph = forward.graph
        assignments, rewards = replays[index].sample(rng, config.batch)
        by_op = torch.from_numpy(assignments.reshape(len(assignments), -1, SUB_ACTIONS))  # int64[B, T, 2]
        actions = nn.functional.one_hot(by_op, graph.mask.shape[-1]).float()  # [B, T, 2, L]
        noise = rng.standard_normal(actions.shape, dtype=np.float32) * np.float32(NOISE)
        actions = actions + torch.from_numpy(noise.clip(-NOISE_LIMIT, NOISE_LIMIT))
        target = torch.from_numpy(rewards) * REWARD_SCALE
        critic_loss = torch.stack([(critic(graph, actions) - target).square().mean() for critic in self._critics]).sum()
        _step(self._critic_optimiser, critic_loss)
        self._calls += 1
        if self._calls % ACTOR_EVERY == 0:
            self._last = self._learn_actor(rng, forward)
        return EgrlLosses(critic_loss.item(), *self._last)

    def _learn_actor(self, rng: np.random.Generator, forward: Forward) -> tuple[float, float]:
        """Do one step of the actor; return its value in units of reward, and its entropy."""
        config, graph = self._config, forward.graph
        log_chances = forward(self._actor[None])[0].log_softmax(-1)  # [T, 2, L]
        actions = _straight_through(rng, log_chances, graph.mask, config.batch)
        self._critics.requires_grad_(False)  # the gradient passes through the critics and leaves them alone
        value = torch.stack([critic(graph, actions) for critic in self._critics]).amin(0).mean()
        self._critics.requires_grad_(True)
        entropy, free = _entropy_of(graph, log_chances)
        _step(self._actor_optimiser, -(value + ENTROPY * entropy))
        return value.item() / REWARD_SCALE, entropy.item() / max(free, 1)

    def practise(
        self, index: int, assignments: NDArray[np.int64], rewards: NDArray[np.float64], replay: EgrlReplay
    ) -> float:
        """Learn from assignments of the actor's own on a workload, and from the fittest of its replay.

        The policy gradient of the one (REINFORCE) and the likelihood of the others, weighted by how many standard
        deviations their rewards are above the actor's last ones (self-imitation; Oh et al., 2018).

        Args:
            index: number of the workload.
            assignments: int64[B, S], drawn from the actor's probabilities.
            rewards: float64[B], what they earned.
            replay: replay buffer of the workload.

        Returns:
            Entropy in nats for each decision that has a choice.
        """
        forward, own, (fittest, earned) = self._forwards[index], self._own[index], replay.fittest
        own.extend(rewards.tolist())
        weights = ((earned - np.mean(own)) / (np.std(own) + _LEAST)).clip(0, _MOST) / max(len(earned), 1)
        credits = (rewards - rewards.mean()) / (rewards.std() + _LEAST) / len(rewards)
        for step in range(1 + _IMITATIONS):
            log_chances = forward(self._actor[None])[0].log_softmax(-1)
            entropy, free = _entropy_of(forward.graph, log_chances)
            gain = ENTROPY * entropy + _likelihood(log_chances, fittest, weights)
            if step == 0:
                gain = gain + _likelihood(log_chances, assignments, credits)
            _step(self._actor_optimiser, -gain)
        return entropy.item() / max(free, 1)

    def state_dict(self) -> dict[str, Any]:
        """Return all that `load_state_dict` needs, tensors and plain values."""
        return {
            "actor": self._actor.detach(),
            "actor_optimiser": optimiser_state(self._actor_optimiser),
            "calls": self._calls,
            "last": list(self._last),
            "own": [torch.tensor(own, dtype=torch.float64) for own in self._own],
            "critics": self._critics.state_dict(),
            "critic_optimiser": optimiser_state(self._critic_optimiser),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        value, entropy = map(number, state["last"])
        self._calls, self._last = whole(state["calls"]), (value, entropy)
        for own, saved in zip(self._own, state["own"], strict=True):
            own.extend(numbers(saved, np.float64, (None,)).tolist())
        with torch.no_grad():
            self._actor.copy_(torch.from_numpy(like(state["actor"], self.genome)))
        load_optimiser(self._actor_optimiser, state["actor_optimiser"])
        self._critics.load_state_dict(fitting(state["critics"], self._critics.state_dict()))
        load_optimiser(self._critic_optimiser, state["critic_optimiser"])


def _straight_through(rng: np.random.Generator, log_chances: Tensor, mask: Tensor, count: int) -> Tensor:
    """Sample one-hot actions float32[count, T, 2, L] that pass gradients on as their soft counterparts."""
    uniform = rng.random((count, *log_chances.shape), dtype=np.float32).clip(1e-20, 1 - 1e-7)  # keeps both logs finite
    gumbel = torch.from_numpy(-np.log(-np.log(uniform)))
    soft = (log_chances + gumbel).masked_fill(~mask, torch.finfo(torch.float32).min).softmax(-1)
    hard = nn.functional.one_hot(soft.argmax(-1), soft.shape[-1]).float()
    return hard + soft - soft.detach()


def _likelihood(log_chances: Tensor, assignments: NDArray[np.integer], weights: NDArray[np.floating]) -> Tensor:
    """Return the weighted sum of log-likelihoods of assignments int[B, S] by log-probabilities [T, 2, L]."""
    chosen = torch.from_numpy(assignments.astype(np.int64))[..., None]  # [B, S, 1]
    by_decision = log_chances.flatten(0, 1).expand(len(chosen), -1, -1).gather(2, chosen)
    return by_decision.sum((1, 2)) @ torch.from_numpy(weights.astype(np.float32))


def _entropy_of(graph: Graph, log_chances: Tensor) -> tuple[Tensor, int]:
    """Return the entropy in nats of all decisions with a choice, by log-probabilities [T, 2, L], and their number."""
    free = graph.mask.sum(-1) > 1
    negative = torch.where(graph.mask, log_chances.exp() * log_chances, 0.0).sum(-1)  # [T, 2]
    return -negative[free].sum(), int(free.sum())


def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    """Do one step of an optimiser down the gradient of a loss."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
