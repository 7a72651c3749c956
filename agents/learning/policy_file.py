"""Policies as files: the options that a network was made with, its weights, and what it was trained on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import nn

from agents.learning import files
from memplace_env.errors import AgentError

_LARGEST = 4096


class PolicyNetwork(nn.Module):
    """A network that can be made anew from its options.

    Attributes:
        KIND: what its files are called inside, such as "graph-policy/1".
        LEAST: smallest number that an option may be.
        options: numbers by name, keyword arguments of its class.
    """

    KIND: ClassVar[str]
    LEAST: ClassVar[int]
    options: dict[str, Any]


P = TypeVar("P", bound=PolicyNetwork)


def save_policy(path: Path, network: PolicyNetwork, trained_on: Sequence[str] = ()) -> None:
    """Write a network; `trained_on` names the programs, for people who open the file."""
    content = {"options": network.options, "weights": network.state_dict(), "trained_on": list(trained_on)}
    files.save(path, network.KIND, content)


def load_policy(path: Path, kind: type[P]) -> P:
    """What `save_policy` wrote of a network of that class.

    Raises:
        AgentError: if the file is missing, damaged or something else.
    """
    content = files.load(path, kind.KIND)
    options: Any = content.get("options")
    try:
        if not all(kind.LEAST <= float(value) <= _LARGEST for value in options.values()):
            raise ValueError
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            network = kind(**options)
        network.load_state_dict(content["weights"])
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        named = kind.KIND.split("/")[0].replace("-", " ")
        raise AgentError(f"{path} does not hold the weights of a {named}; train it anew.") from error
    return network
