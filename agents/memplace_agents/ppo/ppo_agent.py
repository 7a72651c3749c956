"""PPO, MaskablePPO and A2C for both formulations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecMonitor

from memplace_agents.base import Agent
from memplace_agents.built_in_agents import CURVES, POLICY
from memplace_agents.evaluator import GameEvaluator, OneShotEvaluator
from memplace_agents.learning import safe_files
from memplace_agents.learning.policy_file import fitting, no_numbers
from memplace_agents.learning.torch_threads import one_thread
from memplace_agents.ppo.factored import FactoredRolloutBuffer
from memplace_agents.ppo.game_features import GameFeatures
from memplace_agents.ppo.graph_actor_critic import GraphActorCritic
from memplace_agents.ppo.vec_env import GameSearchEnv, OneShotSearchEnv
from memplace_agents.solution import Progress
from memplace_env._lib.errors import AgentError
from memplace_env._lib.units import ceil_div
from memplace_env.envs.wrappers.sb3 import SB3VecEnv

Settings = dict[str, Any]

ONE_SHOT_KIND, GAME_KIND = "ppo-graph/2", "ppo-game/2"
"""Kinds of policy files, see `memplace_agents.learning.safe_files`."""

GRAPH: Settings = {
    "policy": GraphActorCritic,
    "policy_kwargs": {"lean": 4.0},
    "n_steps": 1,
    "rollout_buffer_class": FactoredRolloutBuffer,
}
"""Settings of all algorithms in one-shot environments: each step is an episode."""

GAME: Settings = {
    "policy": "MultiInputPolicy",
    "policy_kwargs": {"features_extractor_class": GameFeatures, "net_arch": []},
    "gamma": 1.0,
    "gae_lambda": 0.95,
}
"""Settings of all algorithms in mallocGame: the return is that of the whole game, undiscounted."""


class StableBaselinesAgent(Agent[OneShotEvaluator | GameEvaluator]):
    """An on-policy algorithm of Stable-Baselines3 or sb3-contrib as a search.

    Every plan tried while it learns counts, and the best is the solution. Runs on the CPU.

    Args:
        policy: file of a policy to start from, as written into `out`. In one-shot environments it may come from
            another workload on a machine with as many levels, in mallocGame from any game.
        out: folder for policy.pt, the trained policy, and TensorBoard's curves; None writes nothing.
        entropy: weight of the policy's entropy in the objective, in nats a decision; the default is the algorithm's.
            More of it finds optima of small programs, and slows the search on large ones.

    Raises:
        AgentError: if the entropy's weight is negative.
    """

    algorithm: ClassVar[Callable[..., OnPolicyAlgorithm]]
    one_shot: ClassVar[Settings]
    """Settings of the algorithm in one-shot environments; `num_envs` assignments are evaluated at a time."""
    game: ClassVar[Settings]
    """Settings of the algorithm in mallocGame, of which `num_envs` are played side by side."""

    def __init__(
        self, policy: str | Path | None = None, out: str | Path | None = None, entropy: float | None = None
    ) -> None:
        if entropy is not None and not entropy >= 0:
            raise AgentError(f"entropy must be at least 0, not {entropy}.")
        self._policy = Path(policy) if policy is not None else None
        self._out = Path(out) if out is not None else None
        self._entropy = {} if entropy is None else {"ent_coef": entropy}

    def run(self, evaluator: OneShotEvaluator | GameEvaluator, seed: int) -> None:
        """Learn until the budget is spent.

        Raises:
            AgentError: if the policy to start from cannot be loaded or does not fit.
        """
        watch = _Watch(evaluator)
        with one_thread():
            self._learn(evaluator, watch, seed)

    def _learn(self, evaluator: OneShotEvaluator | GameEvaluator, watch: _Watch, seed: int) -> None:
        if isinstance(evaluator, OneShotEvaluator):
            kind, steps, settings = ONE_SHOT_KIND, 1, self.one_shot | self._entropy
            venv: SB3VecEnv = OneShotSearchEnv(evaluator, settings.pop("num_envs"))
        else:
            kind, steps, settings = GAME_KIND, evaluator.env.problem.num_decisions, self.game | self._entropy
            venv = GameSearchEnv(evaluator, settings.pop("num_envs"))
        log = None if self._out is None else str(self._out / CURVES)
        model = self.algorithm(env=VecMonitor(venv), seed=seed, device="cpu", tensorboard_log=log, **settings)
        if self._policy is not None:
            _restore(model, self._policy, kind)
        rounds = ceil_div(evaluator.budget, venv.num_envs)
        try:
            model.learn(rounds * venv.num_envs * steps, watch, tb_log_name=self.name)
        except ValueError:  # of a distribution, where a policy computes no numbers for a later observation
            if _computes_numbers(model):
                raise
            raise no_numbers(evaluator.env.program.name) from None
        if self._out is not None:
            safe_files.save(self._out / POLICY, kind, {"policy": model.policy.state_dict()})


class PPOAgent(StableBaselinesAgent):
    """Proximal policy optimisation (Schulman et al., arXiv 1707.06347).

    In mallocGame it has no masks: the game replaces its illegal actions. Constants: our choice, from trials on ResNet50
    and BERT.
    """

    algorithm: ClassVar[Callable[..., OnPolicyAlgorithm]] = PPO
    one_shot: ClassVar[Settings] = GRAPH | {
        "num_envs": 16,
        "batch_size": 16,
        "n_epochs": 2,
        "learning_rate": 2e-3,
    }
    game: ClassVar[Settings] = GAME | {
        "num_envs": 16,
        "n_steps": 64,
        "batch_size": 256,
        "n_epochs": 4,
        "learning_rate": 1e-3,
        "ent_coef": 0.003,
    }


class MaskablePPOAgent(PPOAgent):
    """PPO that never plays an illegal action (Huang and Ontañón, arXiv 2006.14171).

    In one-shot environments the same as `PPOAgent`, whose network has the mask already.
    """

    algorithm = MaskablePPO


class A2CAgent(StableBaselinesAgent):
    """Advantage actor-critic (Mnih et al., arXiv 1602.01783), which shows that any algorithm plugs in.

    One gradient step for each round of samples, so rounds are small. Constants: our choice.
    """

    algorithm = A2C
    one_shot: ClassVar[Settings] = GRAPH | {
        "num_envs": 8,
        "learning_rate": 1e-3,
        "normalize_advantage": True,
        "use_rms_prop": False,
    }
    game: ClassVar[Settings] = GAME | {
        "num_envs": 16,
        "n_steps": 16,
        "learning_rate": 1e-3,
        "normalize_advantage": True,
        "use_rms_prop": False,
        "ent_coef": 0.003,
    }


class _Watch(BaseCallback):
    """Callback that ends the training with the search and logs the search's progress."""

    def __init__(self, evaluator: OneShotEvaluator | GameEvaluator) -> None:
        super().__init__()
        self.evaluator = evaluator
        evaluator.add_callback(self._log)

    def _log(self, progress: Progress) -> None:
        """Log the progress of the search; the evaluator calls this after each round."""
        self.logger.record("search/evaluations", progress.evaluations)
        self.logger.record("search/speedup", self.evaluator.baseline_s / progress.latency_s)

    def _on_training_start(self) -> None:
        """Check that the policy computes numbers, which finite weights from a file do not guarantee.

        Raises:
            AgentError: if it does not.
        """
        if not _computes_numbers(self.model):
            raise no_numbers(self.evaluator.env.program.name)

    def _on_step(self) -> bool:
        return self.evaluator.remaining > 0


def _computes_numbers(model: BaseAlgorithm) -> bool:
    """Return whether the policy's outputs for the current observation are finite."""
    observation = model._last_obs
    assert observation is not None
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            outputs = model.policy(obs_as_tensor(observation, model.device))
        except (RuntimeError, ValueError):  # of distributions whose probabilities are no numbers
            return False
    return all(bool(torch.isfinite(output).all()) for output in outputs)


def _restore(model: OnPolicyAlgorithm, path: Path, kind: str) -> None:
    content = safe_files.load(path, kind)
    try:
        model.policy.load_state_dict(fitting(content["policy"], model.policy.state_dict()))
    except (KeyError, ValueError) as error:
        raise AgentError(
            f"The policy in {path} has other layers, or weights that are not finite; was it trained for as many memory "
            "levels?"
        ) from error
