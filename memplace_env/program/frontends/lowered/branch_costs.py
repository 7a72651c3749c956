"""Work and peak of the branches that the data choose between, for warnings: a plan covers only the one taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.lowered.assembly import assemble
from memplace_env.program.frontends.lowered.buffer_ops import OpGraph

NAMED: Final = 3
"""Most nodes that a warning names."""


def branch_costs(choices: Mapping[str, Mapping[str, Callable[[], OpGraph]]]) -> str:
    """Return a sentence on what the branches of the first nodes cost.

    Args:
        choices: by node and by branch, first the one taken, a function that gives the branch's ops after fusion.
    """
    return f"The plan does not cover the others: {'; '.join(islice(_costs(choices), NAMED))}."


def _costs(choices: Mapping[str, Mapping[str, Callable[[], OpGraph]]]) -> Iterator[str]:
    for node, branches in choices.items():
        yield f"{node} has " + ", ".join(f"{name} {_cost(lowered)}" for name, lowered in branches.items())


def _cost(lowered: Callable[[], OpGraph]) -> str:
    macs = peak = 0
    try:
        graph = lowered()
        if graph.ops:
            program = assemble(graph, name="branch", dtype="float32")
            macs, peak = int(program.macs.sum()), int(program.live_bytes.max())
    except WorkloadError:
        return "(unknown work)"
    return f"({macs:,} MACs, peak of {peak:,} bytes)"
