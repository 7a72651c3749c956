"""`resolve_task`: from the arguments of `gym.make` or the command line to a Task."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from memplace_env._lib.errors import AcceleratorError, WorkloadError
from memplace_env._lib.foreign import described, shown
from memplace_env.machine.accelerator import STREAMED, Accelerator, accelerator_names, load_accelerator
from memplace_env.machine.accelerator.accelerator import ANY, BACKING
from memplace_env.machine.accelerator.schema import MAX_ALIGNMENT
from memplace_env.machine.costs import (
    CostModel,
    Costs,
    CostsLike,
    KnownCosts,
    Measured,
    Roofline,
    Tiled,
    costs_of,
    resolve_cost_model,
    whole_costs_of,
)
from memplace_env.placement.roles import with_penalties
from memplace_env.placement.simulator import Simulator, resolve_simulator
from memplace_env.placement.task import Task
from memplace_env.placement.validation.block_rules import in_the_way
from memplace_env.placement.workloads import has_own_types, is_built, refuse_settings, resolve_workload
from memplace_env.program.blocks import aligned, with_ends
from memplace_env.program.program import Ints, Program, TensorKind
from memplace_env.program.reordering import memory_order, reordered
from memplace_env.program.slicing import cut_before, cuts_of, sliced

Slicing = float | str | Mapping[str, Sequence[int]]
Order = str | Sequence[int] | Ints

ORDERS: Final = ("file", "memory")
"""Orders of ops by name."""
AUTO: Final = "auto"
AUTO_SHARES: Final = (0.05, 0.1, 0.2, 0.5, 1.0)
AUTO_TENSORS: Final = 3_000
"""Our choice from the curve in docs/model.md: finer slices gain little, and more tensors take seconds."""


class UnorderedOptions(TypedDict, total=False):
    """`TaskOptions` without `order`, which `MemPlaceSteps` has as the order of its decisions.

    Attributes:
        simulator: a black box that times plans, by name or itself; None: the costs do.
        costs: a cost model, by name or itself, or the `Costs` of this program on this chip; None takes the
            accelerator's model, for `synthetic:...` the roofline, under which optima are planted.
        batch, dims: see `load_onnx`.
        trips, values, cut, aliases: see `load_onnx`.
        dtype, fusion: see `load_onnx`; None takes the accelerator's, for StableHLO the module's own dtypes.
        in_place: see `load_onnx`; None takes the accelerator's. A Program, saved or not, has been built with or without
            pairs, whatever the accelerator: "none" drops them, None or any other value keeps those that it has.
        patterns: see `load_onnx`; None: "on". Programs, saved or not, and StableHLO have the ops that they have.
        slices: largest share of the fastest memory that a tensor may take whole, in (0, 1]; larger ones are cut into
            slices, which may lie in several memories at once. None cuts none. "auto" takes the least of `AUTO_SHARES`
            that makes no more than `AUTO_TENSORS` tensors, or twice as many as there are. A mapping, as merged plans
            have it, cuts tensors before given rows, see `cuts_of`.
        alignment: bytes that sizes and offsets of all blocks are multiples of, a power of two; None takes the largest
            that a fast level of the accelerator asks for.
        io_level: where graph inputs arrive and outputs must be, see `Accelerator.io_level`; None takes the
            accelerator's.
        pins: levels by name, of tensors by name, that must lie there; "SRAM@64": all their life at byte 64 of it.
        copies: "backing" or None for plans in which each copy is from or to the backing memory, "all" for those that
            copy between fast memories too: between two uses of a tensor, or before the first of a resident weight.
    """

    simulator: str | Simulator | None
    costs: CostsLike
    batch: int | None
    dims: Mapping[str, int] | None
    dtype: str | None
    fusion: str | None
    in_place: str | None
    patterns: str | None
    trips: int | None
    values: Mapping[str, float] | None
    cut: str | None
    aliases: Mapping[str, str] | None
    slices: Slicing | None
    alignment: int | None
    io_level: str | None
    pins: Mapping[str, str] | None
    copies: str | None


class TaskOptions(UnorderedOptions, total=False):
    """Options of `gym.make` and `resolve_task` beside the workload and the accelerator; each may be left out or None.

    Attributes:
        order: "file" or None for the order of ops that the model's file has, "memory" for that of `memory_order`, or a
            permutation, see `reordered`; costs are made for it, so that it goes with a cost model only.
    """

    order: Order | None


def resolve_task(
    workload: str | os.PathLike[str] | Program | Task,
    accelerator: str | Path | Accelerator = "nnp-i",
    simulator: str | Simulator | None = None,
    *,
    costs: CostsLike = None,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    dtype: str | None = None,
    fusion: str | None = None,
    in_place: str | None = None,
    patterns: str | None = None,
    trips: int | None = None,
    values: Mapping[str, float] | None = None,
    cut: str | None = None,
    aliases: Mapping[str, str] | None = None,
    slices: Slicing | None = None,
    alignment: int | None = None,
    io_level: str | None = None,
    pins: Mapping[str, str] | None = None,
    copies: str | None = None,
    order: Order | None = None,
    must_fit: bool = True,
    read: Callable[..., Program] = resolve_workload,
) -> Task:
    """Return the task of a workload on an accelerator, with everything that it names loaded.

    Args:
        workload: zoo name, path of a model file, `synthetic:...` or a Program; a Task is returned as it is.
        accelerator: shipped name, path of a .toml file, or an Accelerator.
        simulator, costs, batch, dims, dtype, fusion, in_place, patterns, trips, values, cut, aliases, slices,
            alignment, io_level, pins, copies, order: see `TaskOptions`.
        must_fit: whether to refuse a program that the backing memory cannot hold, which can only be looked at.
        read: what reads a workload that is not built yet.

    Raises:
        MemPlaceError: naming what cannot be resolved.
        AcceleratorError: if the program does not fit, or updates weights that the chip keeps in place.
    """
    if isinstance(workload, Task):
        refuse_settings(
            "A Task",
            simulator=simulator,
            costs=costs,
            batch=batch,
            dims=dims,
            dtype=dtype,
            fusion=fusion,
            in_place=in_place,
            patterns=patterns,
            trips=trips,
            values=values,
            cut=cut,
            aliases=aliases,
            slices=slices,
            alignment=alignment,
            io_level=io_level,
            pins=pins,
            copies=copies,
            order=order,
        )
        _refuse_updates(workload)
        return _fitting(workload) if must_fit else workload
    chip = load_accelerator(accelerator)
    synthetic = isinstance(workload, str) and workload.startswith("synthetic:")
    if synthetic:  # under these settings optima are planted
        costs = "roofline" if costs is None else costs
        alignment = 1 if alignment is None else alignment
        io_level = BACKING if io_level is None else io_level
    black_box = resolve_simulator(simulator)
    priced = costs if isinstance(costs, Costs) else resolve_cost_model(chip.cost_model if costs is None else costs)
    settings: dict[str, Any] = {}
    sizes: dict[str, Any] = {"batch": batch, "dims": dims, "trips": trips, "values": values or None, "cut": cut}
    sizes["aliases"] = aliases or None
    if is_built(workload):
        program = resolve_workload(workload, **sizes, dtype=dtype, in_place=in_place)
        in_place = (in_place or "rows") if len(program.inplace) else "none"
    else:
        fusion = chip.fusion if fusion is None else fusion
        if dtype is None and not has_own_types(workload):
            dtype = chip.dtype
        in_place = chip.inplace if in_place is None else in_place
        if patterns is None:
            patterns = "off" if has_own_types(workload) else "on"
        program = read(workload, **sizes, dtype=dtype, fusion=fusion, in_place=in_place, patterns=patterns)
        settings = {
            "batch": None if batch is None else int(batch),
            "dims": {name: int(size) for name, size in dims.items()} if dims else None,
            "dtype": dtype,
            "fusion": fusion,
            **({"patterns": patterns} if patterns != "off" else {}),  # plans of before, which do not say it, have none
            **({} if trips is None else {"trips": int(trips)}),
            **({"values": {name: np.asarray(number).item() for name, number in values.items()}} if values else {}),
            **({} if cut is None else {"cut": cut}),
            **({"aliases": dict(aliases)} if aliases else {}),
        }
    if in_place != "none":  # plans of before, which do not say it, have no results in place
        settings["in_place"] = in_place
    model = KnownCosts(priced, program, chip) if isinstance(priced, Costs) else priced
    if order is not None:
        program = _in_order(program, order, model, settings)
    program = _with_ends(program, chip, io_level, model, settings)
    alignment = _alignment(chip, alignment, settings)
    if slices is not None:
        program, settings["slices"] = _sliced(program, chip, slices, alignment)
    program = aligned(program, alignment)
    if isinstance(model, KnownCosts) and program.slices is None:
        model = KnownCosts(model.arrays, program, chip)
    if pins is not None and not isinstance(pins, Mapping):
        raise WorkloadError(f"pins are a dictionary from names of tensors to memories, not {described(pins)}.")
    if pins:
        settings["pins"] = {str(name): str(level) for name, level in pins.items()}
    if copies not in (None, "backing", "all"):
        raise WorkloadError(f"copies is 'backing' or 'all', not {described(copies)}.")
    if copies == "all":
        if black_box is not None:
            raise WorkloadError("Copies between fast memories are timed by the costs only; leave out the simulator.")
        settings["copies"] = copies
    if not isinstance(workload, Program):
        settings["workload"] = os.fspath(workload)
    if not isinstance(accelerator, Accelerator):
        settings["accelerator"] = os.fspath(accelerator)
    if isinstance(costs, str):
        settings["costs"] = costs
    if black_box is not None:
        settings["simulator"] = simulator if isinstance(simulator, str) else type(black_box).__name__
    if is_built(workload):
        _check_unit(program, chip, model)
    whole_costs = whole_costs_of(model, program, chip)
    if whole_costs is not None:
        model = KnownCosts(whole_costs, program.whole, chip)
    task = Task(program, chip, costs_of(model, program, chip), black_box, settings, whole_costs)
    if task.must_leave.any():
        task = replace(task, costs=with_penalties(task.costs, program, task.allowed))
    _refuse_updates(task)
    return _fitting(task) if must_fit else task


def make_task(
    program: Program,
    accelerator: Accelerator,
    *,
    costs: CostsLike = None,
    simulator: str | Simulator | None = None,
) -> Task:
    """Return the task of objects that exist already, see `resolve_task`."""
    return resolve_task(program, accelerator, simulator, costs=costs)


def _in_order(program: Program, order: Order, model: CostModel, settings: dict[str, Any]) -> Program:
    """Return the program in the order of `TaskOptions.order`; settings get the permutation if it is another program."""
    if isinstance(order, str) and order not in ORDERS:
        raise WorkloadError(f"order is {' or '.join(ORDERS)}, or a list of the numbers of ops, not {described(order)}.")
    if isinstance(order, str):
        order = memory_order(program) if order == "memory" else np.arange(program.num_ops)
    other = reordered(program, order)
    if other is not program and isinstance(model, KnownCosts):
        raise WorkloadError(
            f"The costs of {program.name!r} exist already, and in another order an op may reserve other bytes; leave "
            "out order, or pass a cost model, which makes them anew."
        )
    if other is not program:
        settings["order"] = [int(op) for op in order]
    return other


def _with_ends(
    program: Program, chip: Accelerator, io_level: str | None, model: CostModel, settings: dict[str, Any]
) -> Program:
    """Return the program with graph inputs and outputs where `TaskOptions.io_level` says."""
    io_level = chip.io_level if io_level is None else io_level
    names = (BACKING, ANY, *(level.name for level in chip.levels[:-1]))
    if io_level not in names:
        raise WorkloadError(f"io_level is {described(io_level)}; it must be one of {', '.join(names)}.")
    if io_level == BACKING:
        return program
    settings["io_level"] = io_level
    if program.slices is not None:
        raise WorkloadError(
            f"{program.name!r} is cut into slices already, with inputs and outputs in the backing memory; pass "
            f"io_level={BACKING!r}, or the whole program and slices."
        )
    other = with_ends(program)
    if other is not program and isinstance(model, KnownCosts):
        raise WorkloadError(
            f"The costs of {program.name!r} exist already, for inputs and outputs in the backing memory; pass "
            f"io_level={BACKING!r}, or a cost model."
        )
    return other


def _alignment(chip: Accelerator, alignment: int | None, settings: dict[str, Any]) -> int:
    if alignment is None:
        alignment = chip.alignment_bytes
    whole = isinstance(alignment, int | np.integer) and not isinstance(alignment, bool)
    if not whole or not 1 <= alignment <= MAX_ALIGNMENT or alignment & (alignment - 1):
        raise WorkloadError(f"alignment is a power of two up to {MAX_ALIGNMENT:,}, not {described(alignment)}.")
    if alignment > 1:  # plans of before, which do not say it, have blocks at any address
        settings["alignment"] = int(alignment)
    return int(alignment)


def _sliced(program: Program, chip: Accelerator, slices: Slicing, alignment: int) -> tuple[Program, Any]:
    """Return the program cut as `TaskOptions.slices` says, and the setting that cuts it so again.

    Some tensors cannot be cut, or not as fine.
    """
    if isinstance(slices, Mapping):
        program = cut_before(program, slices)
        return program, cuts_of(program)
    bursts = [level.access.burst_bytes for level in chip.levels if level.access is not None]

    def cut_to(share: float) -> Program:
        return sliced(program, max(1, int(share * chip.levels[0].capacity_bytes)), math.lcm(alignment, *bursts))

    if isinstance(slices, str) and slices == AUTO:
        most = max(AUTO_TENSORS, 2 * program.num_tensors)
        for share in AUTO_SHARES:
            with suppress(WorkloadError):  # for more slices than any program may have
                if (found := cut_to(share)).num_tensors <= most:
                    return found, share
        return program, None
    if isinstance(slices, int | float | np.integer | np.floating) and not isinstance(slices, bool) and 0 < slices <= 1:
        return cut_to(float(slices)), float(slices)
    raise WorkloadError(
        f"slices is a share of the fastest memory above 0 and up to 1, or 'auto', not {described(slices)}."
    )


def _check_unit(program: Program, chip: Accelerator, model: CostModel) -> None:
    """Refuse a chip without a unit of the program's dtype, which is fixed by now, where our own models need one."""
    if not isinstance(model, Roofline | Tiled | Measured) or program.dtype in chip.matrix_macs_per_s:
        return
    capable = [name for name in accelerator_names() if program.dtype in load_accelerator(name).matrix_macs_per_s]
    raise WorkloadError(
        f"Accelerator {chip.name!r} has no {program.dtype} unit for {program.name!r}, whose dtype is fixed; pass an "
        f"accelerator that has one{f', such as {capable[0]!r}' if capable else ''}."
    )


def _refuse_updates(task: Task) -> None:
    program, chip = task.program, task.accelerator
    replaced = program.alias_of[program.alias_of >= 0]
    if not task.streams_weights and (program.tensor_kind[replaced] == TensorKind.WEIGHT).any():
        streaming = f"{task.settings.get('accelerator', chip.name)}{STREAMED}"
        raise AcceleratorError(
            f"{program.name!r} updates its weights, which {chip.name!r} keeps in place from run to run; use "
            f"{streaming!r} or a chip with streamed weights, such as 'tpu-v4i'."
        )


def misfit(task: Task) -> str | None:
    """Return why the chip's memories cannot hold the program, as a sentence with the bytes; None if they may."""
    program, memory = task.program, task.accelerator.levels[-1]
    if not task.fits:
        weights = min(program.bytes_of(TensorKind.WEIGHT), task.footprint)
        sizes = weights, task.footprint - weights, memory.capacity_bytes
        scale, unit = (2**30, "GiB") if memory.capacity_bytes >= 2**30 else (2**10, "KiB")
        stay, live, room = (f"{size / scale:.1f} {unit}" for size in sizes)
        return (
            f"{program.name!r} has {stay} of weights and up to {live} of other data at once, more than the {room} of "
            f"{memory.name}, the backing memory of {task.accelerator.name!r}; take a smaller batch, smaller dims, "
            "a smaller dtype or another accelerator."
        )
    for levels in np.unique(task.allowed[task.must_leave], axis=0):
        needs, most = _least_bytes(task, (task.allowed <= levels).all(axis=1)), int(task.capacities[levels].sum())
        if needs > most:
            names = " and ".join(task.accelerator.levels[level].name for level in np.flatnonzero(levels))
            return (
                f"{program.name!r} has up to {needs:,} bytes at once that may lie in {names} only, where there is room "
                f"for {most:,}; take a smaller batch, smaller dims, a smaller dtype, another accelerator or other pins."
            )
    return _bad_pin(task)


def _bad_pin(task: Task) -> str | None:
    """Return why blocks cannot lie at their pinned offsets, as a sentence; None if they may.

    A streamed weight has to lie there at its first use, a resident one always.
    """
    program, pinned = task.program, task.pinned
    tensors = np.flatnonzero(pinned >= 0)
    if not len(tensors):
        return None
    weight, level = program.tensor_kind[tensors] == TensorKind.WEIGHT, task.allowed[tensors].argmax(axis=1)
    first = program.live_start[tensors]
    last = np.where(weight, first, program.live_end[tensors])
    if not task.streams_weights:
        first, last = np.where(weight, 0, first), np.where(weight, program.num_ops, last)
    top, names = pinned[tensors] + program.tensor_bytes[tensors], [memory.name for memory in task.accelerator.levels]
    room = (task.capacities - task.kept_bytes.max(axis=0, initial=0))[level]
    for row in np.flatnonzero(top > room)[:1]:
        return (
            f"{shown(program.tensor_name[tensors[row]])} is pinned to bytes up to {top[row]:,} of "
            f"{names[level[row]]}, where blocks may take {room[row]:,}; take a lower offset."
        )
    for one in np.unique(level):
        here = level == one
        rows = tensors[here]
        for row in np.flatnonzero(in_the_way(pinned[rows], top[here], first[here], last[here]))[:1]:
            return (
                f"{shown(program.tensor_name[rows[row]])} is pinned to bytes of {names[one]} that another pinned "
                "tensor has at the same time; take other offsets."
            )
    return None


def _fitting(task: Task) -> Task:
    if (why := misfit(task)) is not None:
        raise AcceleratorError(why)
    return task


def _least_bytes(task: Task, mine: NDArray[np.bool_]) -> int:
    """Return the bytes that some tensors need at once in fast memory, however well they lie there."""
    program = task.program
    size = np.where(mine, program.tensor_bytes, 0)
    alive = program.alive(size)
    _, result, op = np.unique(program.handovers, axis=0).T
    result, first = np.unique(result, return_index=True)
    np.subtract.at(alive, op[first], size[result])
    stays = (program.tensor_kind == TensorKind.WEIGHT) & (not task.streams_weights)
    return int(size[stays].sum() + alive.max())
