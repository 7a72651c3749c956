"""Check of a third party's cost model against its contract, and a cost model with random arrays."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import CostError
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs import CostModel, Costs, Roofline, costs_of, resolve_cost_model
from memplace_env.program.program import Ints, Program
from memplace_env.testing.instances import instances, pickled


def check_cost_model(
    model: str | CostModel, program: Program | None = None, accelerator: Accelerator | None = None
) -> None:
    """Raise an error for the first violation of a cost model's contract, if there is one.

    The model computes the costs of a few small programs on different chips. Shapes, dtypes and ranges must be right;
    the same program and chip must give the same costs, now, later and from a pickled copy, as environments in other
    processes have. Errors of the model itself stay as the cause.

    Args:
        model: the cost model, or the name of an installed one.
        program: a program instead of the small ones.
        accelerator: a chip instead of the shipped ones; needed for models that know one chip only.

    Raises:
        CostError: naming the model, the array and what to do.

    Example:
        >>> from memplace_env.machine.costs import Roofline
        >>> class Measured:
        ...     def costs(self, program, accelerator):
        ...         costs = Roofline().costs(program, accelerator)
        ...         return costs._replace(compute_ps=costs.compute_ps * 1.1)
        >>> check_cost_model(Measured())
        Traceback (most recent call last):
        memplace_env._lib.errors.CostError: Cost model Measured: compute_ps must be int64[6], not float64[6].
    """
    resolved = resolve_cost_model(model)
    subject = f"Cost model {type(resolved).__name__}"
    pairs = list(instances(program, accelerator))
    first = [costs_of(resolved, *pair) for pair in pairs]
    twin = pickled(resolved, subject, CostError)
    for pair, before in zip(pairs, first, strict=True):
        where = f"for {pair[0].name!r} on {pair[1].name!r}"
        again = f"{subject} gives other costs {where} the second time"
        _require_same(costs_of(resolved, *pair), before, again, "the same program and chip must always cost the same")
        copied = f"A pickled copy of {subject[0].lower()}{subject[1:]} gives other costs {where}"
        _require_same(costs_of(twin, *pair), before, copied, "keep all that it depends on in its pickled state")


def _require_same(costs: Costs, expected: Costs, complaint: str, remedy: str) -> None:
    for field in Costs._fields:
        if not np.array_equal(getattr(costs, field), getattr(expected, field)):
            raise CostError(f"{complaint} ({field}); {remedy}.")


class RandomCosts:
    """Cost model of random arrays of all scales, with zeros, and with or without reserved bytes.

    Example:
        >>> import gymnasium as gym
        >>> env = gym.make("memplace_env:MemPlace-v0", workload="synthetic:chain", costs=RandomCosts(3))

    Args:
        seed: at least 0; the same seed, program and chip always give the same costs.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __repr__(self) -> str:
        return f"RandomCosts({self.seed})"

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        """Return the cost arrays."""
        hashes = [int(part.sha256[:8], 16) for part in (program, accelerator)]
        draw = _Draw(np.random.default_rng([self.seed, *hashes]))
        ops, tensors, uses, levels = program.num_ops, program.num_tensors, program.num_uses, accelerator.num_levels
        use_ps = draw.amounts((uses, levels), least=1)
        return Costs(
            compute_ps=draw.amounts((ops,)),
            overhead_ps=draw.amounts((ops,)) * draw.chance(0.5),
            use_ps=np.sort(use_ps, axis=1) if draw.chance(0.7) else use_ps,
            latency_ps=draw.amounts((levels,)) * draw.chance(0.5),
            serial=draw.chance(0.5),
            prefetch_ps=draw.amounts((tensors,)),
            writeback_ps=draw.amounts((tensors,)),
            compute_pj=draw.amounts((ops,)),
            use_pj=draw.amounts((uses, levels)),
            copy_pj=draw.amounts((tensors, levels)),
            reserved_bytes=draw.reserved(ops, [level.capacity_bytes for level in accelerator.levels[:-1]]),
        )


class ReservingRoofline:
    """The roofline's times, and the reserved bytes of `RandomCosts` with that seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __repr__(self) -> str:
        return f"ReservingRoofline({self.seed})"

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        """Return the cost arrays."""
        reserved = RandomCosts(self.seed).costs(program, accelerator).reserved_bytes
        return Roofline().costs(program, accelerator)._replace(reserved_bytes=reserved)


class _Draw:
    """Generator of one set of costs; times have a common unit, so that none dominates all others."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._unit = 10 ** rng.integers(1, 10)

    def chance(self, probability: float) -> bool:
        return bool(self._rng.random() < probability)

    def amounts(self, shape: tuple[int, ...], least: int = 0) -> Ints:
        """Return int64 of that shape, some of them equal to `least`."""
        largest = int(self._unit * self._rng.choice([0.1, 1, 8]))
        drawn = self._rng.integers(0, largest + 1, shape)
        drawn[self._rng.random(shape) < self._rng.choice([0.0, 0.2])] = 0
        return np.maximum(drawn, least)

    def reserved(self, ops: int, capacities: list[int]) -> Ints:
        """Return int64[T, L]: zeros in a third of all cases, else up to a fraction of each fast level in some ops."""
        columns: list[NDArray[np.int64]] = []
        some = self.chance(2 / 3)
        for capacity in capacities:
            most = int(capacity * self._rng.choice([0.0, 0.2, 0.6, 1.0])) if some else 0
            columns.append(
                self._rng.integers(0, most + 1, ops) * (self._rng.random(ops) < self._rng.choice([0.3, 1.0]))
            )
        return np.stack([*columns, np.zeros(ops, dtype=np.int64)], axis=1)
