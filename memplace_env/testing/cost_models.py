"""Whether a third party's cost model keeps to its contract."""

from __future__ import annotations

import cloudpickle
import numpy as np

from memplace_env.accelerator import Accelerator
from memplace_env.costs import CostModel, Costs, costs_of, resolve_cost_model
from memplace_env.errors import CostError
from memplace_env.testing.instances import instances
from memplace_env.workload.program import Program


def check_cost_model(
    model: str | CostModel, program: Program | None = None, accelerator: Accelerator | None = None
) -> None:
    """Raise an error that says what is wrong with a cost model, if anything is.

    It is asked for the costs of a few small programs on different chips. Shapes, dtypes and ranges must be right; the
    same question must get the same answer, now, later and from a pickled copy, as environments in other processes
    have. What the model itself raises stays as the cause.

    Args:
        model: the cost model, or the name of an installed one.
        program: tried instead of the small ones.
        accelerator: tried instead of the shipped chips; needed for models that know one chip only.

    Raises:
        CostError: naming the model, the array and what to do.

    Example:
        >>> from memplace_env.costs import Roofline
        >>> class Measured:
        ...     def costs(self, program, accelerator):
        ...         costs = Roofline().costs(program, accelerator)
        ...         return costs._replace(compute_ps=costs.compute_ps * 1.1)
        >>> check_cost_model(Measured())
        Traceback (most recent call last):
        memplace_env.errors.CostError: Cost model Measured: compute_ps must be int64[6], not float64[6].
    """
    found = resolve_cost_model(model)
    named = f"Cost model {type(found).__name__}"
    asked = list(instances(program, accelerator))
    given = [costs_of(found, *pair) for pair in asked]
    twin = _pickled(found, named)
    for pair, before in zip(asked, given, strict=True):
        where = f"for {pair[0].name!r} on {pair[1].name!r}"
        again = f"{named} says something else {where} when it is asked again"
        _require_same(costs_of(found, *pair), before, again, "the same program and chip must always cost the same")
        copied = f"A pickled copy of {named[0].lower()}{named[1:]} says something else {where}"
        _require_same(costs_of(twin, *pair), before, copied, "keep all that it depends on in its pickled state")


def _pickled(model: CostModel, named: str) -> CostModel:
    try:
        twin: CostModel = cloudpickle.loads(cloudpickle.dumps(model))
    except Exception as failure:  # whatever its parts raise
        raise CostError(
            f"{named} cannot be pickled ({failure}); leave open files, locks and the like out of its pickled state."
        ) from failure
    return twin


def _require_same(costs: Costs, expected: Costs, complaint: str, remedy: str) -> None:
    for field in Costs._fields:
        if not np.array_equal(getattr(costs, field), getattr(expected, field)):
            raise CostError(f"{complaint} ({field}); {remedy}.")
