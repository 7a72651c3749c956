"""MuZero's networks as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from agents.learning import files
from agents.muzero.networks import MuZeroNetwork
from memplace_env.errors import AgentError

KIND = "muzero-policy/1"
_LARGEST = 4096


def save_policy(path: Path, network: MuZeroNetwork, trained_on: Sequence[str] = ()) -> None:
    """Write a network; `trained_on` names the programs, for people who open the file."""
    content = {"options": network.options, "weights": network.state_dict(), "trained_on": list(trained_on)}
    files.save(path, KIND, content)


def load_policy(path: Path) -> MuZeroNetwork:
    """What `save_policy` wrote.

    Raises:
        AgentError: if the file is missing, damaged or something else.
    """
    content = files.load(path, KIND)
    options, weights = content.get("options"), content.get("weights")
    try:
        if not all(0 <= float(value) <= _LARGEST for value in options.values()):  # type: ignore[union-attr]
            raise ValueError
        with torch.random.fork_rng(devices=[]):
            network = MuZeroNetwork(**options)  # type: ignore[arg-type]
        network.load_state_dict(weights)  # type: ignore[arg-type]
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise AgentError(f"{path} does not hold the weights of a MuZero network; train it anew.") from error
    return network
