"""Policies as files: the options that a network was made with, its weights, and the programs it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from memplace_agents.learning import safe_files
from memplace_env._lib.errors import AgentError

_LARGEST = 4096
"""Largest value of an option in a file: wider or deeper networks are refused."""


class PolicyNetwork(nn.Module):
    """A network that can be made anew from its options.

    Attributes:
        KIND: name and version of its files' content, such as "graph-policy/3".
        OPTIONS: the type of each option; numbers are more than 0 and at most 4096.
        options: numbers by name, keyword arguments of its class.
    """

    KIND: ClassVar[str]
    OPTIONS: ClassVar[Mapping[str, type]]
    options: dict[str, Any]


P = TypeVar("P", bound=PolicyNetwork)


def save_policy(path: Path, network: PolicyNetwork, trained_on: Sequence[str] = ()) -> None:
    """Write a network; `trained_on` names the programs, for people who open the file."""
    content = {"options": network.options, "weights": network.state_dict(), "trained_on": list(trained_on)}
    safe_files.save(path, network.KIND, content)


def load_policy(path: Path, kind: type[P]) -> P:
    """Return a network of that class as `save_policy` wrote it.

    Raises:
        AgentError: if the file is missing, damaged or of another kind, or its weights are no finite numbers.
    """
    content = safe_files.load(path, kind.KIND)
    try:
        options = _checked_options(content["options"], kind.OPTIONS)
        if options.get("depth", 0) > len(content["weights"]):  # each layer has some
            raise ValueError("fewer weights than layers")
        with torch.device("meta"):  # shapes without memory: the options may claim anything
            expected = kind(**options).state_dict()
        weights = fitting(content["weights"], expected)
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            network = kind(**options)
        network.load_state_dict(weights)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        name = kind.KIND.split("/")[0].replace("-", " ")
        raise AgentError(f"{path} does not hold the weights of a {name}; train it anew.") from error
    return network


def fitting(weights: Any, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights if they have the names, shapes and types expected and are finite.

    Raises:
        ValueError: if they do not fit.
    """
    if not isinstance(weights, dict) or weights.keys() != expected.keys():
        raise ValueError("other weights")
    for name, like in expected.items():
        weight = weights[name]
        if not isinstance(weight, Tensor) or weight.shape != like.shape or weight.dtype != like.dtype:
            raise ValueError(f"{name} has another shape")
        if not torch.isfinite(weight).all():
            raise ValueError(f"{name} is not finite")
    return weights


def no_numbers(program: str) -> AgentError:
    """Return the error for a policy whose weights are finite but whose outputs are not."""
    return AgentError(f"The policy's weights are so large that it computes no numbers for {program}; train it anew.")


def _checked_options(options: Any, types: Mapping[str, type]) -> dict[str, Any]:
    """Return the options if they are those of the class and in range.

    Raises:
        ValueError: if they are not.
    """
    if not isinstance(options, dict) or options.keys() != types.keys():
        raise ValueError("other options")
    for name, kind in types.items():
        value = options[name]
        number = type(value) in ((int, float) if kind is float else (int,)) and 0 < value <= _LARGEST
        if not (type(value) is bool if kind is bool else number):
            raise ValueError(f"{name} is out of range")
    return options
