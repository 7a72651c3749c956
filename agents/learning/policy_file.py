"""Policies as files: the options that a network was made with, its weights, and what it was trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from agents.learning import files
from memplace_env.errors import AgentError

_LARGEST = 4096


class PolicyNetwork(nn.Module):
    """A network that can be made anew from its options.

    Attributes:
        KIND: what its files are called inside, such as "graph-policy/2".
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
    files.save(path, network.KIND, content)


def load_policy(path: Path, kind: type[P]) -> P:
    """What `save_policy` wrote of a network of that class.

    Raises:
        AgentError: if the file is missing, damaged or something else, or its weights are no finite numbers.
    """
    content = files.load(path, kind.KIND)
    try:
        options = _sensible(content["options"], kind.OPTIONS)
        if options.get("depth", 0) > len(content["weights"]):  # each layer has some
            raise ValueError("fewer weights than layers")
        with torch.device("meta"):  # shapes without memory: the options may claim anything
            expected = kind(**options).state_dict()
        weights = fitting(content["weights"], expected)
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            network = kind(**options)
        network.load_state_dict(weights)
    except (KeyError, RuntimeError, TypeError, ValueError) as error:
        named = kind.KIND.split("/")[0].replace("-", " ")
        raise AgentError(f"{path} does not hold the weights of a {named}; train it anew.") from error
    return network


def fitting(weights: Any, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights, if they are as many, of the same names, shapes and types as expected, and finite.

    Raises:
        ValueError: if they are not.
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
    """What is said of a policy whose weights are finite, but not what it computes of them."""
    return AgentError(f"The policy's weights are so large that it computes no numbers for {program}; train it anew.")


def _sensible(options: Any, types: Mapping[str, type]) -> dict[str, Any]:
    """The options, if they are those of the class and in range.

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
