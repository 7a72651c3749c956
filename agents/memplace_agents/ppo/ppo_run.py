"""One training run of the library's PPO: its state, and one round."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.logger import Logger

from memplace_agents.learning.policy_file import fitting, no_numbers
from memplace_agents.learning.saved_tensors import load_optimiser, numbers, optimiser_state
from memplace_agents.learning.training import TrainingRun
from memplace_agents.ppo.actor_critic import ActorCritic
from memplace_agents.ppo.counted_envs import CountedEnv
from memplace_agents.ppo.ppo_config import PPOSettings
from memplace_agents.search.cheap_plans import offer_cheap_plans
from memplace_agents.search.evaluator import Evaluator
from memplace_env._lib.errors import AgentError

LEAST_STEPS = 100
"""Fewest steps of an environment in a round of whole episodes; our choice, as what follows."""
BETWEEN_GREEDY = 10
"""Rounds from one plan of the likeliest actions to the next."""
LATEST = 256
"""Episodes whose mean return has a peak and falls from it."""


class PPORun(TrainingRun[ActorCritic]):
    """Rounds of the library's PPO, until budgets or time are spent: one policy for all programs.

    Args:
        settings: settings in the formulation.
        evaluators: evaluators of the programs.
        envs: their environments.
        policy: the policy to start from, or None for a fresh one.
        seed: seed of all randomness.

    Raises:
        AgentError: if the given policy is of other environments or computes no numbers.
    """

    def __init__(
        self,
        settings: PPOSettings,
        evaluators: Sequence[Evaluator],
        envs: CountedEnv,
        policy: ActorCritic | None,
        seed: int,
    ) -> None:
        super().__init__(seed)
        self._settings, self._evaluators, self._envs, self._left = settings, evaluators, envs, 1.0
        self._returns, self._peak, self._fall = np.empty(0), -np.inf, 0.0
        length = settings.n_steps or envs.n_steps * -(-LEAST_STEPS // envs.n_steps)
        steps = length * envs.num_envs
        self._options = {**envs.sizes, "width": settings.width} if policy is None else policy.options
        if self._options != {**envs.sizes, "width": self._options["width"]}:
            raise AgentError(
                f"The policy has {self._options['inputs']} inputs and {self._options['decisions']} x "
                f"{self._options['actions']} actions, where {envs.sizes['inputs']} and {envs.sizes['decisions']} x "
                f"{envs.sizes['actions']} are needed; pass one that was trained in this formulation."
            )
        kind: Any = MaskablePPO if self._options["decisions"] == 1 else PPO
        with self._draws():
            self._model = kind(
                "MlpPolicy",
                envs,
                learning_rate=lambda _: settings.rate * self._left,
                n_steps=length,
                batch_size=steps,
                n_epochs=settings.epochs,
                gamma=1.0,
                gae_lambda=1.0,
                policy_kwargs={"net_arch": [self._options["width"]] * 2},
                device="cpu",
            )
        self._model.batch_size = -(-steps // max(round(steps / settings.minibatch), 1))  # about equal parts
        self._model.set_logger(Logger(None, []))
        if policy is not None:
            self._model.policy.load_state_dict(policy.state_dict())
            if not torch.isfinite(policy(torch.from_numpy(envs.reset()))).all():
                raise no_numbers(evaluators[0].env.program.name)

    @contextmanager
    def _draws(self) -> Iterator[None]:
        """Let torch's and NumPy's global generators, from which the library draws, be seeded by this run's inside."""
        outer = np.random.get_state()  # noqa: NPY002
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self._rng.integers(2**62)))
            np.random.seed(int(self._rng.integers(2**32)))  # noqa: NPY002
            try:
                yield
            finally:
                np.random.set_state(outer)  # noqa: NPY002

    @property
    def done(self) -> bool:
        """True if a budget or the time is spent."""
        return any(evaluator.remaining <= 0 for evaluator in self._evaluators)

    @property
    def policy(self) -> ActorCritic:
        """The policy learned so far."""
        with torch.random.fork_rng(devices=[]):
            network = ActorCritic(**self._options)
        network.load_state_dict(self._model.policy.state_dict())
        return network

    def begin(self) -> None:
        """Evaluate the plans of the rules."""
        for evaluator in self._evaluators:
            offer_cheap_plans(evaluator)
        self._envs.begin()

    def step(self) -> None:
        """Play a round and learn from it; a round within which the budget ends is not learned from."""
        began, self.scalars = time.process_time(), {}
        if self.round % BETWEEN_GREEDY == 0:
            for program in range(len(self._evaluators)):
                self.scalars[f"return/greedy/{program}"] = self._envs.play_greedily(self._model, program)
        model, settings = self._model, self._settings
        self._left = min(evaluator.fraction_left for evaluator in self._evaluators)
        model.ent_coef = settings.entropy * self._left
        steps = model.n_steps * self._envs.num_envs
        with self._draws():
            model.learn(steps, callback=lambda *_: not self.done)
        self.scalars |= {name: float(value) for name, value in model.logger.name_to_value.items()}
        self.scalars["steps_per_second"] = steps / max(time.process_time() - began, 1e-9)
        self._look_back()
        self.round += 1

    def _look_back(self) -> None:
        """Set the figures of the latest episodes."""
        self._returns = np.concatenate([self._returns, self._envs.returns])[-LATEST:]
        self._envs.returns = []
        if len(self._returns):
            self.scalars["return/mean"] = mean = float(self._returns.mean())
            if len(self._returns) == LATEST:
                self._peak = max(self._peak, mean)
                self._fall = max(self._fall, self._peak - mean)
                self.scalars |= {"return/peak": self._peak, "return/deepest fall": self._fall}

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides how the run goes on, as tensors and plain values."""
        return super().state_dict() | {
            "policy": self._model.policy.state_dict(),
            "optimiser": optimiser_state(self._model.policy.optimizer),
            "envs": self._envs.state_dict(),
            "returns": torch.from_numpy(self._returns),
            "peak and fall": torch.tensor([self._peak, self._fall], dtype=torch.float64),
            "evaluators": [evaluator.state_dict() for evaluator in self._evaluators],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        super().load_state_dict(state)
        self._model.policy.load_state_dict(fitting(state["policy"], self._model.policy.state_dict()))
        load_optimiser(self._model.policy.optimizer, state["optimiser"])
        self._envs.load_state_dict(state["envs"])
        self._returns = numbers(state["returns"], np.float64, (None,))
        self._peak, self._fall = numbers(state["peak and fall"], np.float64, (2,), finite=False).tolist()
        for evaluator, saved in zip(self._evaluators, state["evaluators"], strict=True):
            evaluator.load_state_dict(saved)
