"""The first weights of a policy, and their check."""

from __future__ import annotations

import torch
from torch import Tensor

from memplace_agents.learning.flat_policy import FlatPolicy
from memplace_agents.learning.policy_file import no_numbers


def check_numbers(log_policy: Tensor, policy: FlatPolicy | None, program: str) -> None:
    """Refuse a given policy whose weights are finite and whose first outputs are not.

    Raises:
        AgentError: if it is one; it names the program.
    """
    if policy is not None and not bool(torch.isfinite(log_policy).all()):
        raise no_numbers(program)


def started(shape: tuple[int, int, int], policy: FlatPolicy | None, seed: int) -> FlatPolicy:
    """Return a copy of a policy, or a fresh one with inputs, width and actions of `shape`."""
    with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
        torch.manual_seed(seed)
        network = FlatPolicy(*shape) if policy is None else FlatPolicy(**policy.options)
    if policy is not None:
        network.load_state_dict(policy.state_dict())
    return network
