"""Work and peak of the branches that the data choose between, for warnings: a plan covers only the one taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Final, TypeVar

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.lowered.assembly import assemble
from memplace_env.program.frontends.lowered.buffer_ops import OpGraph

NAMED: Final = 3
"""Most nodes that a warning names."""

_Branch = TypeVar("_Branch")


def branch_costs(choices: Iterable[tuple[str, Mapping[str, _Branch]]], lowered: Callable[[_Branch], OpGraph]) -> str:
    """Return a sentence on what the branches of the first nodes cost.

    Args:
        choices: nodes, each with its branches by name, first the one taken.
        lowered: returns the ops of a branch after fusion.
    """

    def cost(branch: _Branch) -> str:
        try:
            graph = lowered(branch)
            program = assemble(graph, name="branch", dtype="float32") if graph.ops else None
        except WorkloadError:
            return "(unknown work)"
        macs, peak = (0, 0) if program is None else (int(program.macs.sum()), int(program.live_bytes.max()))
        return f"({macs:,} MACs, peak of {peak:,} bytes)"

    costs = (
        f"{node} has " + ", ".join(f"{name} {cost(branch)}" for name, branch in branches.items())
        for node, branches in islice(choices, NAMED)
    )
    return f"The plan does not cover the others: {'; '.join(costs)}."
