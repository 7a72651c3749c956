"""TorchRL: ClipPPOLoss and GAE, with a masked distribution."""

import gymnasium as gym
import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torch import nn
from torchrl.collectors import Collector
from torchrl.envs import GymWrapper
from torchrl.modules import MaskedCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

from memplace_env.envs.malloc_game import MallocGameEnv

NUM_ENVS, ROLLOUT = 32, 320
MASK = MallocGameEnv.mask_slice
"""Where the flat observation has the action mask."""


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Return two hidden layers of 128 units."""
    return nn.Sequential(
        nn.Linear(inputs, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, outputs)
    )  # fmt: skip


def train(env_id: str, steps: int, seed: int) -> ProbabilisticActor:
    """Return the trained actor."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    vector = gym.make_vec(env_id, num_envs=NUM_ENVS, observation="flat", skip_forced=True, autoreset_mode="SameStep")
    inputs, actions = vector.single_observation_space.shape[0], int(vector.single_action_space.n)
    env = GymWrapper(vector, categorical_action_encoding=True)
    logits = TensorDictModule(mlp(inputs, actions), in_keys=["observation"], out_keys=["logits"])
    mask = TensorDictModule(lambda seen: seen[..., MASK] > 0, in_keys=["observation"], out_keys=["mask"])
    actor = ProbabilisticActor(
        TensorDictSequential(logits, mask), in_keys=["logits", "mask"], distribution_class=MaskedCategorical,
        spec=env.action_spec, return_log_prob=True,
    )  # fmt: skip
    critic = ValueOperator(mlp(inputs, 1), in_keys=["observation"])
    advantage = GAE(gamma=1.0, lmbda=1.0, value_network=critic, average_gae=True)
    loss = ClipPPOLoss(
        actor, critic, clip_epsilon=0.2, entropy_coeff=0.01, critic_coeff=0.5, loss_critic_type="l2"
    )  # fmt: skip
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-3, eps=1e-5)
    batch = NUM_ENVS * ROLLOUT
    schedule = torch.optim.lr_scheduler.LinearLR(optimiser, 1.0, 0.0, steps // batch)
    for data in Collector(env, actor, frames_per_batch=batch, total_frames=steps):
        for _ in range(4):
            with torch.no_grad():
                advantage(data)
            rows = data.reshape(-1)
            for chosen in torch.randperm(batch).split(512):
                losses = loss(rows[chosen])
                optimiser.zero_grad()
                sum(losses[f"loss_{part}"] for part in ("objective", "critic", "entropy")).backward()
                nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
                optimiser.step()
        schedule.step()
    return actor
