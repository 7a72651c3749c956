"""RLlib, new API stack: PPO with a module that masks its logits, in one process."""

import gymnasium as gym
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.rl_module import RLModuleSpec

from memplace_env.envs.malloc_game import MallocGameEnv

MASK = MallocGameEnv.mask_slice
"""Where the flat observation has the action mask."""


class MaskedModule(DefaultPPOTorchRLModule):
    """Policy whose illegal actions have very small logits."""

    def _forward(self, batch, **kwargs):
        return self._masked(super()._forward(batch, **kwargs), batch)

    def _forward_train(self, batch, **kwargs):
        return self._masked(super()._forward_train(batch, **kwargs), batch)

    def _masked(self, outputs, batch):
        illegal = batch[Columns.OBS][..., MASK] == 0
        outputs[Columns.ACTION_DIST_INPUTS] = outputs[Columns.ACTION_DIST_INPUTS].masked_fill(illegal, -1e9)
        return outputs


def train(env_id: str, steps: int, seed: int):
    """Return the trained algorithm."""
    torch.set_num_threads(1)
    config = (
        PPOConfig()
        .environment(env_id, env_config={"observation": "flat", "skip_forced": True})
        .env_runners(
            num_env_runners=0,
            num_envs_per_env_runner=32,
            gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT,
            rollout_fragment_length=320,
        )
        .learners(num_learners=0)
        .training(
            gamma=1.0,
            lambda_=1.0,
            lr=[[0, 1e-3], [steps, 0.0]],
            num_epochs=4,
            minibatch_size=512,
            train_batch_size_per_learner=10240,
            entropy_coeff=0.01,
            clip_param=0.2,
            vf_clip_param=float("inf"),
            vf_loss_coeff=0.5,
            use_kl_loss=False,
            grad_clip=0.5,
        )
        .rl_module(
            rl_module_spec=RLModuleSpec(
                module_class=MaskedModule,
                model_config={"fcnet_hiddens": [128, 128], "fcnet_activation": "tanh", "vf_share_layers": False},
            )
        )
        .debugging(seed=seed)
    )
    algorithm = config.build_algo()
    for _ in range(steps // 10240):
        algorithm.train()
    return algorithm
