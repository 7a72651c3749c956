"""Small runs and networks of MuZero."""

import torch

from memplace_agents.muzero import MuZeroConfig
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.synthetic import random_dag

SMALL = {"games": 4, "decisions": 6, "simulations": 3, "hidden": 16, "batch": 24, "sampling": 0, "annealing": 0.1,
         "first_simulations": 4}  # fmt: skip
MODELS = ["rules", "learned"]


def crowded(seed=3, ops=8):
    """A program larger than fast memory, so that there is something to decide."""
    return MallocGameEnv(random_dag(seed, ops=ops, largest=60_000_000), "tpu-v4i")


def small(model="rules", **options):
    return MuZeroConfig(**{"model": model, **SMALL, **options})


def weights(network):
    return torch.nn.utils.parameters_to_vector(network.parameters()).detach()


def fresh_network(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return MuZeroNetwork(**{"hidden": 16, **options})
