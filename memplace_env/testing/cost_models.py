"""Check of a third party's cost model against its contract."""

from __future__ import annotations

import numpy as np

from memplace_env._lib.errors import CostError
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs import CostModel, Costs, costs_of, resolve_cost_model
from memplace_env.program.program import Program
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
