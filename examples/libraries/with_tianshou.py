"""Tianshou: PPO with an actor that masks its logits, on an adapter of the native vector environment."""

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.algorithm.modelfree.reinforce import ProbabilisticActorPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory, LRSchedulerFactoryLinear
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import BaseVectorEnv
from tianshou.trainer import OnPolicyTrainerParams
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic
from torch import nn

from memplace_env.envs.malloc_game import MallocGameEnv

NUM_ENVS, ROLLOUT = 32, 320
MASK = MallocGameEnv.mask_slice
"""Where the flat observation has the action mask."""


class NativeVectorEnv(BaseVectorEnv):
    """A Gymnasium vector environment in the form that Tianshou's collectors take."""

    def __init__(self, env: gym.vector.VectorEnv):
        self.env, self.env_num, self.is_async, self.is_closed = env, env.num_envs, False, False

    def reset(self, env_id=None, **kwargs):
        """Begin the episodes of these environments."""
        which = np.isin(np.arange(self.env_num), self._wrap_id(env_id))
        observations, _ = self.env.reset(options={"reset_mask": which})
        return observations[which], self._infos(which.sum())

    def step(self, action, id=None):
        """Play an action in every environment; Tianshou asks for all of them while it collects steps."""
        observations, rewards, terminations, truncations, _ = self.env.step(np.asarray(action))
        return observations, rewards, terminations, truncations, self._infos(self.env_num)

    def get_env_attr(self, key, id=None):
        """Return an attribute once for every environment, the spaces among others."""
        return [getattr(self.env, f"single_{key}", None)] * self.env_num

    def seed(self, seed=None):
        """Seed the environments."""
        self.env.reset(seed=seed)

    def close(self):
        """Close the environments."""
        self.env.close()

    def _infos(self, count):
        return np.array([{"env_id": index} for index in range(count)])


class MaskedActor(DiscreteActor):
    """Actor whose illegal actions have very small logits."""

    def forward(self, obs, state=None, info=None):
        """Return logits."""
        logits, hidden = super().forward(obs, state, info)
        return logits.masked_fill(torch.as_tensor(obs[:, MASK]) == 0, -1e9), hidden


def train(env_id: str, steps: int, seed: int) -> PPO:
    """Return the trained algorithm."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    env = gym.make_vec(env_id, num_envs=NUM_ENVS, observation="flat", skip_forced=True, autoreset_mode="Disabled")
    space, actions = env.single_observation_space, env.single_action_space
    nets = [Net(state_shape=space.shape, hidden_sizes=[128, 128], activation=nn.Tanh) for _ in range(2)]
    actor = MaskedActor(preprocess_net=nets[0], action_shape=actions.n, softmax_output=False)
    epoch = NUM_ENVS * ROLLOUT
    epochs = steps // epoch
    algorithm = PPO(
        policy=ProbabilisticActorPolicy(
            actor=actor, dist_fn=lambda logits: torch.distributions.Categorical(logits=logits),
            action_space=actions, action_scaling=False, action_bound_method=None,
        ),
        critic=DiscreteCritic(preprocess_net=nets[1]),
        optim=AdamOptimizerFactory(lr=1e-3).with_lr_scheduler_factory(LRSchedulerFactoryLinear(epochs, epoch, epoch)),
        gamma=1.0, gae_lambda=1.0, max_grad_norm=0.5, ent_coef=0.01, max_batchsize=epoch,
    )  # fmt: skip
    collector = Collector(algorithm, NativeVectorEnv(env), VectorReplayBuffer(epoch, NUM_ENVS))
    algorithm.run_training(
        OnPolicyTrainerParams(
            training_collector=collector, max_epochs=epochs, epoch_num_steps=epoch,
            collection_step_num_env_steps=epoch, batch_size=512, update_step_num_repetitions=4,
            test_collector=None, show_progress=False, verbose=False,
        )
    )  # fmt: skip
    return algorithm
