"""skrl: PPO with a model that masks its logits."""

import gymnasium as gym
import torch
from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn
from torch.optim.lr_scheduler import LinearLR

from memplace_env.envs.malloc_game import MallocGameEnv

NUM_ENVS, ROLLOUT = 32, 320
MASK = MallocGameEnv.mask_slice
"""Where the flat observation has the action mask."""


def mlp(space: gym.Space, outputs: int) -> nn.Sequential:
    """Return two hidden layers of 128 units."""
    hidden = [nn.Linear(space.shape[0], 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh()]
    return nn.Sequential(*hidden, nn.Linear(128, outputs))


class Policy(CategoricalMixin, Model):
    """Masked policy."""

    def __init__(self, **spaces):
        Model.__init__(self, **spaces)
        CategoricalMixin.__init__(self)
        self.net = mlp(self.observation_space, self.num_actions)

    def compute(self, inputs, role):
        """Return logits, those of illegal actions very small."""
        seen = inputs["observations"]
        return self.net(seen).masked_fill(seen[:, MASK] == 0, -1e9), {}


class Value(DeterministicMixin, Model):
    """Value of a state."""

    def __init__(self, **spaces):
        Model.__init__(self, **spaces)
        DeterministicMixin.__init__(self)
        self.net = mlp(self.observation_space, 1)

    def compute(self, inputs, role):
        """Return values."""
        return self.net(inputs["observations"]), {}


def train(env_id: str, steps: int, seed: int) -> PPO:
    """Return the trained agent."""
    torch.set_num_threads(1)
    set_seed(seed)
    env = wrap_env(
        gym.make_vec(env_id, num_envs=NUM_ENVS, observation="flat", skip_forced=True, autoreset_mode="SameStep"),
        verbose=False,
    )
    spaces = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
    rounds = steps // (NUM_ENVS * ROLLOUT)
    cfg = PPO_CFG(
        rollouts=ROLLOUT, learning_epochs=4, mini_batches=20, discount_factor=1.0, learning_rate=1e-3,
        learning_rate_scheduler=LinearLR, entropy_loss_scale=0.01, value_loss_scale=0.5, value_clip=0,
        learning_rate_scheduler_kwargs={"start_factor": 1.0, "end_factor": 0.0, "total_iters": 4 * rounds},
        experiment={"write_interval": 0, "checkpoint_interval": 0},
    )  # fmt: skip
    agent = PPO(
        models={"policy": Policy(**spaces), "value": Value(**spaces)},
        memory=RandomMemory(memory_size=ROLLOUT, num_envs=NUM_ENVS, device=env.device),
        cfg=cfg, **spaces,
    )  # fmt: skip
    options = {"timesteps": rounds * ROLLOUT, "headless": True, "disable_progressbar": True}
    SequentialTrainer(cfg=options, env=env, agents=agent).train()
    return agent
