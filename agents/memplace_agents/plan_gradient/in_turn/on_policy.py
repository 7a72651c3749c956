"""One on-policy learner: proximal policy optimisation with masks and value scales."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from memplace_agents.learning.flat_policy import Critic, FlatPolicy, clipped_gain, masked_log_softmax
from memplace_agents.learning.policy_file import fitting
from memplace_agents.learning.rollouts import Episodes, Rollout, Turn, advantages
from memplace_agents.learning.saved_tensors import load_optimiser, optimiser_state
from memplace_agents.plan_gradient.in_turn.on_policy_settings import OnPolicySettings
from memplace_agents.saved_values import whole
from memplace_env.program.program import Ints

EPOCHS = 4
"""Passes over a round; fewer if the policy changes more than `LARGEST_KL`. Our choice, as all that follow."""
ENTROPY = 0.01
"""Weight of the entropy, in nats a decision; falls like the learning rate."""
LAMBDA = 0.95
"""Weight of later estimates in generalised advantage estimation; the discount is 1."""
CLIP = 0.2
"""Largest change of a probability that is rewarded."""
LARGEST_KL = 0.05
"""Divergence from the policy that played, in nats, at which a round's epochs end."""
LARGEST_NORM = 0.5
"""Longer gradients are cut to this; our choice."""
MOST_IMITATION = 500
"""Gradient steps on demonstrations at most; our choice."""
SCALE_WEIGHT = 0.1
"""Weight of a round in the running mean and deviation of returns; our choice."""
TINY = np.finfo(np.float32).tiny


class Demonstration(NamedTuple):
    """One episode to imitate: its decisions with a choice.

    Attributes:
        turn: the decisions, M instead of B rows.
        action: int64[M].
    """

    turn: Turn
    action: Ints


class OnPolicyLearner:
    """A policy in training on one or several programs: it plays rounds and learns from them.

    Logits are those of the network plus, with `settings.table_rate`, a table of logits by program and entry.

    Args:
        settings: every constant.
        policy: the network that is trained, in place.
        entries: rows of each program's table.
        seed: seed of the critic's first weights.

    Attributes:
        policy: as given.
        critic: its values.
        tables: float32[entries, A] for each program.
        rounds: rounds learned from.
    """

    def __init__(self, settings: OnPolicySettings, policy: FlatPolicy, entries: Sequence[int], seed: int) -> None:
        self.settings, self.policy, self.rounds = settings, policy, 0
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            torch.manual_seed(seed)
            self.critic = Critic(policy.options["inputs"], settings.width, len(entries))
        actions = policy.options["actions"]
        self.tables = nn.ParameterList(torch.zeros(rows if settings.table_rate else 0, actions) for rows in entries)
        self._optimiser = torch.optim.Adam(
            [{"params": [*policy.parameters(), *self.critic.parameters()]}, {"params": [*self.tables.parameters()]}],
            eps=1e-5,
        )

    def log_policy(self, turn: Turn, program: int) -> Tensor:
        """Return float32[..., A], logarithms of the actions' probabilities."""
        logits = self.policy(torch.from_numpy(turn.observation))
        if self.settings.table_rate and len(self.tables[program]):
            logits = logits + self.tables[program][torch.from_numpy(turn.entry)]
        return masked_log_softmax(logits, torch.from_numpy(turn.legal))

    @torch.no_grad()
    def play(self, episodes: Episodes, rng: np.random.Generator, program: int = 0) -> Rollout:
        """Play a round by sampled actions."""
        rows = []
        for _ in range(self.settings.steps or episodes.length):
            turn = episodes.turn()
            log_policy = self.log_policy(turn, program).numpy()
            noise = rng.standard_exponential(log_policy.shape, np.float32)
            # Gumbel-max: a sample of the policy. Noise of 0 would make any action the greatest, an illegal one, too.
            action = (log_policy - np.log(np.maximum(noise, TINY))).argmax(-1)
            log_prob = np.take_along_axis(log_policy, action[:, None], 1)[:, 0]
            reward, ended = episodes.step(action)
            rows.append((*turn, action, log_prob, reward.astype(np.float32), ended))
        columns: Any = [*(np.stack(column) for column in zip(*rows, strict=True)), episodes.turn().observation]
        return Rollout(*columns)

    def learn(
        self,
        rollouts: Sequence[Rollout],
        rng: np.random.Generator,
        left: float,
        demonstrations: Sequence[Demonstration | None] = (),
    ) -> dict[str, float]:
        """Improve policy and critic by a round of each program; return figures of the round by name.

        Args:
            rollouts: one for each program.
            rng: draws the minibatches.
            left: fraction of the budget that is left; learning rate and entropy shrink with it.
            demonstrations: an episode of each program to imitate, or None.
        """
        settings = self.settings
        batches = [self._batch(rollout, program) for program, rollout in enumerate(rollouts)]
        self.rounds += 1
        self._set_rates(left)
        sums, count, stopped = np.zeros(3), 0, False
        share = settings.minibatch // len(batches)
        for _ in range(EPOCHS):
            for parts in _minibatches([len(batch.action) for batch in batches], share, rng):
                loss = torch.zeros(())
                for program, rows in parts:
                    batch = batches[program].rows(rows)
                    gain, entropy, error, divergence = self._losses(batch, program)
                    stopped |= divergence > LARGEST_KL
                    loss = loss + error / 2 - gain - ENTROPY * left * entropy
                    sums += (float(entropy.detach()), float(error.detach()), divergence)
                    count += 1
                if stopped:
                    break
                for program, shown in enumerate(demonstrations if settings.imitation else ()):
                    if shown is not None:
                        loss = loss + settings.imitation * self._cross_entropy(shown, program)
                self._step(loss / len(batches))
            if stopped:
                break
        return dict(zip(("entropy", "loss/value", "divergence"), (sums / max(count, 1)).tolist(), strict=True))

    def imitate(self, demonstrations: Sequence[Demonstration | None], until: float) -> None:
        """Do gradient steps towards the decisions of demonstrations.

        Args:
            demonstrations: an episode of each program, or None.
            until: cross-entropy in nats a decision at which to end; some demonstrations never come down to it.
        """
        self._set_rates(1.0)
        for _ in range(MOST_IMITATION):
            losses = [self._cross_entropy(shown, i) for i, shown in enumerate(demonstrations) if shown is not None]
            if not losses or float((loss := torch.stack(losses).mean()).detach()) <= until:
                return
            self._step(loss)

    def _set_rates(self, left: float) -> None:
        for group, rate in zip(
            self._optimiser.param_groups, (self.settings.rate, self.settings.table_rate), strict=True
        ):
            group["lr"] = rate * left

    def _step(self, loss: Tensor) -> None:
        self._optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        for group in self._optimiser.param_groups:
            nn.utils.clip_grad_norm_(group["params"], LARGEST_NORM)
        self._optimiser.step()

    def _cross_entropy(self, shown: Demonstration, program: int) -> Tensor:
        log_policy = self.log_policy(shown.turn, program)
        return -log_policy.gather(-1, torch.from_numpy(shown.action)[:, None]).mean()

    def _batch(self, rollout: Rollout, program: int) -> _Batch:
        """Return the decisions of a round with advantages and returns.

        Forced ones stay: without them a policy settles earlier, on games that are worse (GPT2, strassen2).
        """
        with torch.no_grad():
            value, last = (
                self.critic.values(torch.from_numpy(seen), program).numpy()
                for seen in (rollout.observation, rollout.last)
            )
        gained = advantages(rollout.reward, value, last, rollout.ended, LAMBDA)
        returns = gained + value
        self.critic.rescale(torch.from_numpy(returns), program, SCALE_WEIGHT if self.rounds else 1.0)

        def flat(array: NDArray[Any]) -> NDArray[Any]:
            return array.reshape(-1, *array.shape[2:])

        turn = Turn(flat(rollout.observation), flat(rollout.legal), flat(rollout.entry))
        return _Batch(turn, flat(rollout.action), flat(rollout.log_prob), flat(gained), flat(returns))

    def _losses(self, batch: _Batch, program: int) -> tuple[Tensor, Tensor, Tensor, float]:
        """Return the policy's gain, its entropy, the critic's squared error, and the divergence from what played."""
        log_policy = self.log_policy(batch.turn, program)
        change = log_policy.gather(-1, torch.from_numpy(batch.action)[:, None])[:, 0] - torch.from_numpy(batch.log_prob)
        divergence = float((change.exp() - 1 - change).detach().mean())
        advantage = torch.from_numpy(batch.advantage)
        advantage = (advantage - advantage.mean()) / (advantage.std(correction=0) + 1e-8)
        gain = clipped_gain(change, advantage, CLIP)
        entropy = -(log_policy.exp() * log_policy).sum(-1).mean()
        critic = self.critic
        wanted = (torch.from_numpy(batch.returns) - critic.mean[program].float()) / critic.deviation[program].float()
        error = (critic(torch.from_numpy(batch.turn.observation), program) - wanted).square().mean()
        return gain.mean(), entropy, error, divergence

    def state_dict(self) -> dict[str, Any]:
        """Return weights, value scales and the optimiser's memory."""
        return {
            "rounds": self.rounds,
            "policy": self.policy.state_dict(),
            "critic": self.critic.state_dict(),
            "tables": self.tables.state_dict(),
            "optimiser": optimiser_state(self._optimiser),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        self.rounds = whole(state["rounds"])
        for module, name in ((self.policy, "policy"), (self.critic, "critic"), (self.tables, "tables")):
            module.load_state_dict(fitting(state[name], module.state_dict()))
        load_optimiser(self._optimiser, state["optimiser"])


class _Batch(NamedTuple):
    """Decisions of a round: arrays of N rows."""

    turn: Turn
    action: Ints
    log_prob: NDArray[np.float32]
    advantage: NDArray[np.float32]
    returns: NDArray[np.float32]

    def rows(self, rows: Ints) -> _Batch:
        """Return some of the rows."""
        columns: Any = [part[rows] for part in (*self.turn, *self[1:])]
        return _Batch(Turn(*columns[:3]), *columns[3:])


def _minibatches(sizes: Sequence[int], share: int, rng: np.random.Generator) -> list[list[tuple[int, Ints]]]:
    """Return minibatches of one epoch: in each about `share` random rows of every program that has some left."""
    count = -(-max(sizes) // share)
    parts = [np.array_split(rng.permutation(size), count) for size in sizes]
    return [[(program, part[i]) for program, part in enumerate(parts) if len(part[i])] for i in range(count)]
