"""A search over the options of XLA's memory-space assignment."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.xla_msa.assignment import assign
from memplace_agents.xla_msa.msa_options import PUBLIC_SETS, MsaOptions

WIDTH = 8
"""Option sets in the first round; our choice."""
CHANGED = 0.25
"""Probability with which a trial draws an option anew; at least one always is. Our choice."""

Draw = Callable[[np.random.Generator], Any]
Space = dict[str, Draw]
"""Function that draws each option, by its name."""


class Trial(NamedTuple):
    """Options and the latency in ps of their plan."""

    latency_ps: int
    options: MsaOptions


Search = Generator[MsaOptions, int, Trial]
"""Yields options, is sent their latency in ps, and returns the best trial."""


class XlaAutotune(Agent[GameEvaluator]):
    """Tunes the options of XLA's memory-space assignment to the program, as a compiler team's autotuner would.

    Random search with successive halving (Jamieson and Talwalkar, AISTATS 2016). A round begins with given option sets
    and random ones; the better half is improved by random changes, then the better half of those with twice as many
    trials each, until one is left. The first round is given the public sets, each later one the best so far, and is
    twice as wide. The trials depend on the seed only, so that a run with a time limit is the beginning of one without.
    An interrupt ends the search with the best plan so far.
    """

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Search until the budget is spent; each plan costs one run of the assignment."""
        task = evaluator.env.task
        search = _rounds(WIDTH, space_of(task.accelerator.levels[0].capacity_bytes), np.random.default_rng(seed))
        options = next(search)
        with suppress(KeyboardInterrupt):
            while evaluator.remaining > 0:
                options = search.send(evaluator.offer(assign(task, options)).latency_ps)


def _rounds(width: int, space: Space, rng: np.random.Generator) -> Search:
    given = [public.options for public in PUBLIC_SETS]
    while True:
        drawn = [changed(MsaOptions(), space, rng, 1.0) for _ in range(width - len(given))]
        best = yield from halving([*given, *drawn], space, rng)
        given, width = [best.options], 2 * width


def halving(options: list[MsaOptions], space: Space, rng: np.random.Generator) -> Search:
    """Run successive halving: each time half of the sets are left, each gets twice as many trials."""
    left = []
    for candidate in options:
        left.append(Trial((yield candidate), candidate))
    trials = 1
    while len(left) > 1:
        left = sorted(left, key=_latency)[: len(left) // 2]
        for index, best in enumerate(left):
            left[index] = yield from climb(best, trials, space, rng)
        trials *= 2
    return left[0]


def climb(best: Trial, trials: int, space: Space, rng: np.random.Generator) -> Search:
    """Try random changes and keep each that is no slower."""
    for _ in range(trials):
        options = changed(best.options, space, rng, CHANGED)
        best = min(Trial((yield options), options), best, key=_latency)
    return best


def _latency(trial: Trial) -> int:
    return trial.latency_ps


def changed(options: MsaOptions, space: Space, rng: np.random.Generator, share: float) -> MsaOptions:
    """Return the options with each drawn anew with probability `share`, one of them at least."""
    anew = rng.random(len(space)) < share
    anew[rng.integers(len(space))] = True
    return replace(
        options, **{name: draw(rng) for (name, draw), drawn in zip(space.items(), anew, strict=True) if drawn}
    )


def space_of(capacity: int) -> Space:
    """Return the search space: all options but `reserved_bytes`, in ranges around the published values, our choice.

    Args:
        capacity: bytes of fast memory.
    """
    outstanding, picker = _sometimes(_whole(2, 256), -1), _sometimes(_whole(capacity / 1000, 4 * capacity), None)
    return {
        "max_retries": _among(1, 2, 3),
        "max_repacks": _among(0, 2, 18),
        "max_outstanding_prefetches": outstanding,
        "max_outstanding_evictions": outstanding,
        "min_overlap_ratio": _between(0.05, 4),
        "preferred_overlap_ratio": _between(0.1, 20),
        "max_overlap_ratio": _between(0.1, 32),
        "copy_bandwidth_scale": _between(0.19, 2),
        "inefficient_use_ratio": _sometimes(_between(0.05, 1), 0.0),
        "benefit_scale": _among("sqrt", "none"),
        "fifo_prefetches": _among(False, True),
        "picker_bytes": picker,
    }


def _among(*values: Any) -> Draw:
    return lambda rng: values[rng.integers(len(values))]


def _between(low: float, high: float) -> Draw:
    """Draw a number evenly on a logarithmic scale."""
    return lambda rng: float(low * (high / low) ** rng.random())


def _whole(low: float, high: float) -> Draw:
    draw = _between(low, high)
    return lambda rng: max(round(draw(rng)), 1)


def _sometimes(draw: Draw, otherwise: Any) -> Draw:
    return lambda rng: draw(rng) if rng.random() < 0.5 else otherwise
