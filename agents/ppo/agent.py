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

from agents.base import Agent
from agents.evaluator import GameEvaluator, MapEvaluator
from agents.learning import files
from agents.learning.policy_file import fitting, no_numbers
from agents.learning.threads import one_thread
from agents.ppo.factored import FactoredRolloutBuffer
from agents.ppo.game import GameFeatures
from agents.ppo.graph import GraphActorCritic
from agents.ppo.vec_env import GameSearchEnv, OneShotSearchEnv
from agents.solution import Progress
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation
from memplace_env.wrappers.sb3 import SB3VecEnv

POLICY, CURVES = "policy.pt", "tensorboard"

Settings = dict[str, Any]

ONE_SHOT_KIND, GAME_KIND = "ppo-graph/2", "ppo-game/2"
"""Kinds of policy files, see `agents.learning.files`."""

GRAPH: Settings = {
    "policy": GraphActorCritic,
    "policy_kwargs": {"lean": 4.0},
    "n_steps": 1,
    "rollout_buffer_class": FactoredRolloutBuffer,
}
"""What all algorithms share in one-shot environments: each step is an episode."""

GAME: Settings = {
    "policy": "MultiInputPolicy",
    "policy_kwargs": {"features_extractor_class": GameFeatures, "net_arch": []},
    "gamma": 1.0,
    "gae_lambda": 0.95,
}
"""What all share in mallocGame: the return to raise is that of the whole game, undiscounted."""


class StableBaselinesAgent(Agent[MapEvaluator | GameEvaluator]):
    """An on-policy algorithm of Stable-Baselines3 or sb3-contrib as a search.

    Everything it plays while it learns counts, and the best of it is the solution. Runs on the CPU.

    Args:
        policy: file of a policy to start from, as written into `out`. In one-shot environments it may come from
            another workload on a machine with as many levels, in mallocGame from any game.
        out: folder for policy.pt, the trained policy, and TensorBoard's curves; None keeps nothing.
        entropy: weight of the policy's entropy in what is maximised, in nats a choice; None takes the algorithm's own.
            More of it finds optima of small programs, and slows the search on large ones.

    Raises:
        AgentError: if the entropy's weight is negative.
    """

    formulations = (Formulation.ONE_SHOT, Formulation.GAME)
    algorithm: ClassVar[Callable[..., OnPolicyAlgorithm]]
    one_shot: ClassVar[Settings]
    """Settings of the algorithm in one-shot environments; `num_envs` maps are evaluated at a time."""
    game: ClassVar[Settings]
    """Settings of the algorithm in mallocGame, of which `num_envs` are played side by side."""

    def __init__(
        self, policy: str | Path | None = None, out: str | Path | None = None, entropy: float | None = None
    ) -> None:
        if entropy is not None and not entropy >= 0:
            raise AgentError(f"entropy={entropy} makes no sense; pass at least 0.")
        self._policy = Path(policy) if policy is not None else None
        self._out = Path(out) if out is not None else None
        self._entropy = {} if entropy is None else {"ent_coef": entropy}

    def run(self, evaluator: MapEvaluator | GameEvaluator, seed: int) -> None:
        """Learn until the budget is spent.

        Raises:
            AgentError: if the policy to start from cannot be loaded or does not fit.
        """
        watch = _Watch(evaluator)
        with one_thread():
            self._learn(evaluator, watch, seed)

    def _learn(self, evaluator: MapEvaluator | GameEvaluator, watch: _Watch, seed: int) -> None:
        if isinstance(evaluator, MapEvaluator):
            kind, steps, settings = ONE_SHOT_KIND, 1, self.one_shot | self._entropy
            venv: SB3VecEnv = OneShotSearchEnv(evaluator, settings.pop("num_envs"))
        else:
            kind, steps, settings = GAME_KIND, evaluator.env.problem.num_decisions, self.game | self._entropy
            venv = GameSearchEnv(evaluator, settings.pop("num_envs"))
        log = None if self._out is None else str(self._out / CURVES)
        model = self.algorithm(env=VecMonitor(venv), seed=seed, device="cpu", tensorboard_log=log, **settings)
        if self._policy is not None:
            _restore(model, self._policy, kind)
        rounds = -(-evaluator.budget // venv.num_envs)
        try:
            model.learn(rounds * venv.num_envs * steps, watch, tb_log_name=self.name)
        except ValueError:  # of a distribution, where a policy computes no numbers of what comes later
            if _computes_numbers(model):
                raise
            raise no_numbers(evaluator.env.program.name) from None
        if self._out is not None:
            files.save(self._out / POLICY, kind, {"policy": model.policy.state_dict()})


class PPOAgent(StableBaselinesAgent):
    """Proximal policy optimisation (Schulman et al., arXiv 1707.06347).

    In mallocGame it knows nothing of masks: the game replaces its illegal actions. Constants: our choice, from trials
    on ResNet50 and BERT.
    """

    name = "ppo"
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

    name = "maskable-ppo"
    algorithm = MaskablePPO


class A2CAgent(StableBaselinesAgent):
    """Advantage actor-critic (Mnih et al., arXiv 1602.01783), a check that any algorithm plugs in.

    One gradient step for each round of samples, so rounds are small. Constants: our choice.
    """

    name = "a2c"
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
    """Ends the training with the search, and logs how far that is."""

    def __init__(self, evaluator: MapEvaluator | GameEvaluator) -> None:
        super().__init__()
        self.evaluator = evaluator
        evaluator.listen(self._tell)

    def _tell(self, progress: Progress) -> None:
        """What the evaluator calls after each round."""
        self.logger.record("search/evaluations", progress.evaluations)
        self.logger.record("search/speedup", self.evaluator.baseline_s / progress.latency_s)

    def _on_training_start(self) -> None:
        """A policy of a stranger may be finite, but not what it computes.

        Raises:
            AgentError: if that is so.
        """
        if not _computes_numbers(self.model):
            raise no_numbers(self.evaluator.env.program.name)

    def _on_step(self) -> bool:
        return self.evaluator.remaining > 0


def _computes_numbers(model: BaseAlgorithm) -> bool:
    """Whether the policy does, of what it sees just now."""
    seen = model._last_obs
    assert seen is not None
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        try:
            outputs = model.policy(obs_as_tensor(seen, model.device))
        except (RuntimeError, ValueError):  # of distributions of no numbers
            return False
    return all(bool(torch.isfinite(output).all()) for output in outputs)


def _restore(model: OnPolicyAlgorithm, path: Path, kind: str) -> None:
    content = files.load(path, kind)
    try:
        model.policy.load_state_dict(fitting(content["policy"], model.policy.state_dict()))
    except (KeyError, ValueError) as error:
        raise AgentError(
            f"The policy in {path} has other layers, or weights that are not finite; was it trained for as many memory "
            "levels?"
        ) from error
