"""Make a trained policy a row of the leaderboard.

    python examples/policy_to_row.py --steps 300000

It plays programs that it never saw. Training draws its programs from `MallocGame-Train-v0`. The two games of the
zero-shot track of `quick-v1` are of the test split: neither their programs nor their chips are among those.
"""

import argparse
from functools import partial
from pathlib import Path

import gymnasium as gym
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecMonitor

from memplace_agents import PolicyAgent
from memplace_env.envs.wrappers import SB3VecEnv

UNSEEN = "MallocGame-NeRF-intel-npu-4000-v0", "MallocGame-DCN-V2-ethos-u65-v0"
ROW = """
The row:
  cd {folder}
  memplace leaderboard run policy_to_row:Trained --option policy={policy} --suite quick-v1 --track zero-shot \\
    --trained-on MallocGame-Train-v0 --training-plans {plans} --out row
  memplace leaderboard verify row
  memplace leaderboard table row"""


class Trained(PolicyAgent):
    """MaskablePPO, trained on programs of the train split; the first game is greedy, the others are sampled."""

    name, formulations = "trained-policy", ("game",)

    def __init__(self, policy="policy.zip"):
        torch.set_num_threads(1)
        super().__init__(partial(act, MaskablePPO.load(policy, device="cpu")), seed=set_random_seed)


def act(model, observations, masks):
    """Return actions int[B] of observations float32[B, 546] and masks bool[B, 3]; a batch of one is the first game."""
    return model.predict(observations, action_masks=masks, deterministic=len(masks) == 1)[0]


def train(steps, policy):
    """Train for so many steps, rounded up to whole rounds, write the policy, and return the number of games played."""
    torch.set_num_threads(1)
    venv = VecMonitor(SB3VecEnv(gym.make_vec("MallocGame-Train-v0", num_envs=32, observation="flat"), seed=0))
    model = MaskablePPO(
        "MlpPolicy", venv, n_steps=256, batch_size=1024, n_epochs=4, gamma=1, gae_lambda=1, ent_coef=0.01,
        learning_rate=lambda left: 1e-3 * left, policy_kwargs={"net_arch": [128, 128]}, seed=0, device="cpu",
    )  # fmt: skip
    model.learn(steps)
    model.save(policy)
    return venv.episode_count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300_000)
    parser.add_argument("--policy", default="policy.zip", help="file that is written")
    options = parser.parse_args()
    plans = train(options.steps, options.policy)
    for env_id in UNSEEN:
        solution = Trained(options.policy).solve(env_id, budget=100)
        print(f"{env_id}: {solution.speedup:.3f} times as fast as everything in the backing memory")
    print(ROW.format(folder=Path(__file__).resolve().parent, policy=Path(options.policy).resolve(), plans=plans))
