"""Graph policies as files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.learning import files
from agents.learning.graph_policy import GraphPolicy
from memplace_env.errors import AgentError

KIND = "graph-policy/1"
_LARGEST = 4096


def save_policy(path: Path, policy: GraphPolicy, trained_on: Sequence[str] = ()) -> None:
    """Write a policy; `trained_on` names the workloads, for people who open the file."""
    content = {"options": policy.options, "weights": policy.state_dict(), "trained_on": list(trained_on)}
    files.save(path, KIND, content)


def load_policy(path: Path) -> GraphPolicy:
    """What `save_policy` wrote.

    Raises:
        AgentError: if the file is missing, damaged or something else.
    """
    content = files.load(path, KIND)
    options, weights = content.get("options"), content.get("weights")
    try:
        if not all(1 <= value <= _LARGEST for value in options.values()):  # type: ignore[union-attr]
            raise ValueError
        policy = GraphPolicy(**options)  # type: ignore[arg-type]
        policy.load_state_dict(weights)  # type: ignore[arg-type]
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise AgentError(f"{path} does not hold the weights of a graph policy; train it anew.") from error
    return policy
