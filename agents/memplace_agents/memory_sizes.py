"""The worth of the size of the fastest memory: the best latency that is found for each of several sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from memplace_agents.exact import Exact
from memplace_agents.exact.smallest_arena import resized, same_costs, smallest_arena
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.task import Task

SIZES: Final = 12
WORK: Final = 5.0
"""Most work of the search at one size, see `Exact`. Our choice."""
KNEE: Final = 0.01
"""Share of the best latency that the knee may lose. Our choice."""


class SizedLatency(NamedTuple):
    """Bytes of the fastest memory, seconds of the best plan that was found, and seconds that no such plan beats."""

    size: int
    latency_s: float
    bound_s: float


def latency_by_size(task: Task) -> Iterator[SizedLatency]:
    """Yield rows by rising size: `SIZES` in equal ratios, and the chip's own size if it lies between.

    The first is an eighth of the smallest memory for all inner results, the last holds the weights too, but is no
    larger than the next level. Plans give each tensor one level. The same rows come on every machine.
    """
    arena, own = smallest_arena(task), task.accelerator.levels[0].capacity_bytes
    most = max(min(arena.size + arena.weights, task.accelerator.levels[1].capacity_bytes), 1)
    sizes = {_round(size) for size in np.geomspace(max(min(arena.size, most) / 8, 1), most, SIZES)}
    before = None
    for size in sorted(sizes | ({own} if min(sizes) < own < max(sizes) else set())):
        at = resized(task, size)
        agent = Exact(tie_break="none", work=WORK)
        agent.checks = False
        solution = agent.solve(OneShotEnv(at))
        assert solution.report is not None
        assert solution.bound_s is not None
        row = SizedLatency(size, solution.report.latency_s, solution.bound_s)
        # Where costs are the same, the plan of a smaller memory runs in a larger one.
        if before is not None and same_costs(at.costs, before[0].costs):
            row = row._replace(latency_s=min(row.latency_s, before[1].latency_s))
        before = at, row
        yield row


def knee(rows: Sequence[SizedLatency]) -> int:
    """Return the index of the smallest size whose latency is within `KNEE` of the best; `rows` by rising size."""
    within = (1 + KNEE) * min(row.latency_s for row in rows)
    return next(index for index, row in enumerate(rows) if row.latency_s <= within)


def loss_by_halving(rows: Sequence[SizedLatency]) -> float:
    """Return by how much each halving from the knee to the smallest size slows the best plan, in the geometric mean."""
    least, best = rows[0], rows[knee(rows)]
    halvings = float(np.log2(best.size / least.size))
    return float((least.latency_s / best.latency_s) ** (1 / halvings) - 1) if halvings else 0.0


def _round(size: float) -> int:
    """Return the next size of at most four binary digits."""
    step = 2 ** max(int(size).bit_length() - 4, 0)
    return int(-(-size // step) * step)
