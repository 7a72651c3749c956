"""Cost models: from a program and a chip to `Costs`; the first way to plug a simulator in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import CostError, MemPlaceError, WorkloadError
from memplace_env._lib.foreign import described, message_of
from memplace_env._lib.plugins import COST_MODELS, installed, load_plugin
from memplace_env._lib.units import PJ, PS_PER_S
from memplace_env.machine.accelerator import Accelerator
from memplace_env.machine.costs.cost_arrays import LIMIT_PJ, LIMIT_PS, Costs, shared_costs
from memplace_env.machine.costs.measured import Measured
from memplace_env.machine.costs.roofline import Roofline
from memplace_env.machine.costs.tiled import Tiled
from memplace_env.program.blocks import inner_ops, inner_uses
from memplace_env.program.program import Program


class CostModel(Protocol):
    """Any object that computes the costs of a program on a chip, always the same for the same program and chip.

    Costs do not depend on whether weights are resident or streamed: a streamed copy of a chip has the same costs.

    Example, a chip on which every port is a quarter slower than in its data sheet:
        >>> class Derated:
        ...     def costs(self, program, accelerator):
        ...         costs = Roofline().costs(program, accelerator)
        ...         return costs._replace(use_ps=costs.use_ps * 5 // 4)
        >>> env = gym.make("MemPlace-v0", workload="BERT", costs=Derated())
    """

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        """Return the costs of the program; see `Costs` for shapes and units."""
        ...


BUILT_IN: dict[str, Callable[[], CostModel]] = {"roofline": Roofline, "tiled": Tiled, "measured": Measured}


CostsLike = str | CostModel | Costs | None
"""A cost model, by name or itself, or the costs themselves, computed already; None takes the accelerator's model."""


class KnownCosts:
    """Arrays that exist already, measured ones for example, as a model for one program on one chip.

    Args:
        costs: the arrays.
        program, accelerator: the program and the chip that they belong to.

    Attributes:
        arrays: the arrays.
    """

    def __init__(self, costs: Costs, program: Program, accelerator: Accelerator) -> None:
        self.arrays, self._program, self._accelerator = costs, program, accelerator

    def costs(self, program: Program, accelerator: Accelerator) -> Costs:
        """Return the arrays.

        Raises:
            CostError: for another program or chip.
        """
        if not self.belongs_to(program) or accelerator.sha256 != self._accelerator.sha256:
            raise CostError(
                f"These costs are those of {self._program.name!r} on {self._accelerator.name!r}, not of "
                f"{program.name!r} on {accelerator.name!r}."
            )
        return self.arrays

    def belongs_to(self, program: Program) -> bool:
        """Return whether the arrays are those of this program."""
        return program.sha256 == self._program.sha256


def cost_model_names() -> tuple[str, ...]:
    """Return the names of the cost models that are built in or installed."""
    return tuple(dict.fromkeys([*BUILT_IN, *installed(COST_MODELS)]))


def resolve_cost_model(model: str | CostModel) -> CostModel:
    """Return a cost model from its name, built in or an installed `memplace.cost_models` entry point, or itself.

    Raises:
        CostError: if there is none with that name, or the object has no `costs`.
    """
    if isinstance(model, Costs):
        raise CostError(
            "Costs belong to one program on one chip and are not a cost model; "
            "memplace_env.machine.costs.KnownCosts(costs, program, accelerator) is one."
        )
    if isinstance(model, str) and model in BUILT_IN:
        return BUILT_IN[model]()
    resolved: CostModel = (
        load_plugin(COST_MODELS, model, "cost model", BUILT_IN, CostError) if isinstance(model, str) else model
    )
    if not callable(getattr(resolved, "costs", None)):
        raise CostError(f"{described(resolved)} is not a cost model: it needs costs(program, accelerator) -> Costs.")
    return resolved


def costs_of(model: CostModel, program: Program, accelerator: Accelerator) -> Costs:
    """Return the model's costs, checked, as contiguous int64 arrays of the task's own.

    A model sees ops, not slices: those of a sliced program share what the whole costs.

    Raises:
        CostError: if the model fails, or an array has the wrong shape, type or range.
        WorkloadError: if the program takes longer, or more energy, than fits into int64.
    """
    if program.slices is not None and (whole := whole_costs_of(model, program, accelerator)) is not None:
        return shared_costs(whole, program.slices)
    named = "The costs" if isinstance(model, KnownCosts) else f"Cost model {type(model).__name__}"
    try:
        costs = model.costs(program, accelerator)
    except MemPlaceError:
        raise
    except Exception as failure:  # whatever a third party's code may raise
        raise CostError(f"{named} raised {type(failure).__name__}: {message_of(failure)}") from failure
    if not isinstance(costs, Costs):
        raise CostError(f"{named} returned {type(costs).__name__}; it must return memplace_env.Costs.")
    ops, tensors, uses, levels = program.num_ops, program.num_tensors, program.num_uses, accelerator.num_levels
    arrays = {
        "compute_ps": _checked(named, costs, "compute_ps", (ops,)),
        "overhead_ps": _checked(named, costs, "overhead_ps", (ops,)),
        "use_ps": _checked(named, costs, "use_ps", (uses, levels), least=1),
        "latency_ps": _checked(named, costs, "latency_ps", (levels,)),
        "prefetch_ps": _checked(named, costs, "prefetch_ps", (tensors,)),
        "writeback_ps": _checked(named, costs, "writeback_ps", (tensors,)),
        "compute_pj": _checked(named, costs, "compute_pj", (ops,)),
        "use_pj": _checked(named, costs, "use_pj", (uses, levels)),
        "copy_pj": _checked(named, costs, "copy_pj", (tensors, levels)),
        "reserved_bytes": _checked(named, costs, "reserved_bytes", (ops, levels)),
    }
    _free_ends(program, arrays)
    _check_reserved(named, arrays["reserved_bytes"], accelerator)
    _check_totals(program, accelerator, arrays)
    if not isinstance(costs.serial, bool | np.bool_):
        raise CostError(f"{named}: serial must be True or False, not {described(costs.serial)}.")
    return Costs(serial=bool(costs.serial), **arrays)


def whole_costs_of(model: CostModel, program: Program, accelerator: Accelerator) -> Costs | None:
    """Return the costs of `program.whole`, which those of its slices share.

    None: none is a slice, or the model is the costs of the slices themselves.
    """
    known = isinstance(model, KnownCosts) and model.belongs_to(program)
    return None if program.slices is None or known else costs_of(model, program.whole, accelerator)


def _checked(named: str, costs: Costs, field: str, shape: tuple[int, ...], least: int = 0) -> NDArray[np.int64]:
    try:
        array = np.asarray(getattr(costs, field))
    except Exception as failure:  # lists of unequal lengths, or errors of a third party's objects
        kind = type(getattr(costs, field)).__name__
        raise CostError(f"{named}: {field} must be int64{list(shape)}; this {kind} is not an array.") from failure
    if array.shape != shape or array.dtype.kind not in "iu":
        raise CostError(f"{named}: {field} must be int64{list(shape)}, not {array.dtype}{list(array.shape)}.")
    if array.size and array.min() < least:
        raise CostError(f"{named}: {field} must be at least {least} everywhere; it holds {array.min()}.")
    if array.size and array.max() > LIMIT_PS:
        raise CostError(f"{named}: {field} must be at most 2**60 everywhere; it holds {array.max()}.")
    return np.array(array, dtype=np.int64, order="C")  # kernels know arrays by layout and by whether they are read-only


def _free_ends(program: Program, arrays: dict[str, NDArray[np.int64]]) -> None:
    """Let the ops of `blocks.with_ends` cost next to nothing: callers fill the inputs and take the outputs."""
    ops, uses = inner_ops(program), inner_uses(program)
    for name, inner in [
        ("compute_ps", ops),
        ("overhead_ps", ops),
        ("compute_pj", ops),
        ("use_ps", uses),
        ("use_pj", uses),
    ]:
        least = int(name == "use_ps")
        arrays[name][: inner.start] = arrays[name][inner.stop :] = least


def _check_reserved(named: str, reserved: NDArray[np.int64], accelerator: Accelerator) -> None:
    for index, level in enumerate(accelerator.levels):
        limit = 0 if index == accelerator.backing else level.capacity_bytes
        if reserved[:, index].max(initial=0) > limit:
            op = int(reserved[:, index].argmax())
            raise CostError(
                f"{named}: op {op} reserves {reserved[op, index]} bytes of {level.name}; at most {limit} can be."
            )


def _check_totals(program: Program, accelerator: Accelerator, arrays: dict[str, Any]) -> None:
    """Refuse costs whose sum over everything that could be paid is beyond the limits."""

    def total(field: str) -> int:
        return int(arrays[field].sum(dtype=object))

    worst_ps = sum(map(total, ("compute_ps", "overhead_ps", "use_ps")))
    worst_ps += 2 * (total("prefetch_ps") + total("writeback_ps")) + program.num_ops * total("latency_ps")
    if worst_ps > LIMIT_PS:
        raise WorkloadError(
            f"{program.name!r} takes over {LIMIT_PS // PS_PER_S // 3600} hours on {accelerator.name!r}, more than the "
            "simulator counts; pass smaller dims or batch."
        )
    if total("compute_pj") + total("use_pj") + 2 * total("copy_pj") > LIMIT_PJ:
        raise WorkloadError(
            f"{program.name!r} takes over {LIMIT_PJ * PJ:.1g} J on {accelerator.name!r}, more than the simulator "
            "counts; pass smaller dims or batch."
        )
