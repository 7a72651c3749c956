"""The first weights of a policy."""

from __future__ import annotations

import torch

from memplace_agents.learning.flat_policy import FlatPolicy


def started(shape: tuple[int, int, int], policy: FlatPolicy | None, seed: int) -> FlatPolicy:
    """Return a copy of a policy, or a fresh one with inputs, width and actions of `shape`."""
    with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
        torch.manual_seed(seed)
        network = FlatPolicy(*shape) if policy is None else FlatPolicy(**policy.options)
    if policy is not None:
        network.load_state_dict(policy.state_dict())
    return network
