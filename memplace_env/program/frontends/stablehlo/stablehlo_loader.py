"""`load_stablehlo` and `from_jax`: read a module, unroll it, lower, fuse and order its operations."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Collection
from functools import wraps
from pathlib import Path
from typing import Any, Final

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.stablehlo.fusion import fuse_loops
from memplace_env.program.frontends.stablehlo.module import Module
from memplace_env.program.frontends.stablehlo.parsed_apart import libraries
from memplace_env.program.frontends.stablehlo.stablehlo_lowering import lower, possible_aliases, with_partial_updates
from memplace_env.program.frontends.stablehlo.stablehlo_operators import work
from memplace_env.program.frontends.stablehlo.stablehlo_reader import read_module
from memplace_env.program.frontends.stablehlo.stablehlo_schedule import scheduled
from memplace_env.program.frontends.stablehlo.tracer import Trace, trace
from memplace_env.program.lowering.assembly import assemble, branch_costs
from memplace_env.program.lowering.buffer_ops import OpGraph
from memplace_env.program.lowering.compute_dtype import check_deployment, computing_dtype
from memplace_env.program.lowering.fusion import fuse
from memplace_env.program.lowering.graph_values import FLOAT_BITS
from memplace_env.program.model_file import check_trips, errors_named, name_of, read_bytes
from memplace_env.program.program import Program

_SUFFIX: Final = ".mlir"


def load_stablehlo(
    source: str | os.PathLike[str] | Any,
    *,
    dtype: str | None = None,
    fusion: str = "epilogue",
    in_place: str = "none",
    trips: int | None = None,
    weights: Collection[int] | None = None,
    name: str | None = None,
) -> Program:
    """Read a StableHLO module, such as a training step that JAX lowered, as a Program.

    Calls are inlined, loops unrolled; where the data choose a branch, the one with most work is taken, and a warning
    says so. The ops run in an order that keeps few bytes alive (`scheduled`). A donated argument whose output takes its
    place gives `alias_of`.

    Args:
        source: the path of a file with text, bytecode or an artifact of `jax.export`; or a module of MLIR, as
            `jax.jit(f).lower(...).compiler_ir("stablehlo")` returns it.
        dtype: dtype to deploy all floating-point tensors in and to compute in, a key of `FLOAT_BYTES`; None keeps the
            module's types and computes in that of most MACs.
        fusion: see `fuse`; here "epilogue" fuses like XLA, see `fuse_loops`.
        in_place: see `load_onnx`; no op here is row-wise.
        trips: number of rounds of loops for which the module does not determine it.
        weights: numbers of main's arguments that are weights; the others are inputs. None: the donated floating-point
            arguments; where none is donated, all floating-point arguments but the last argument.
        name: the Program's name; the file's without its suffix if None.

    Raises:
        WorkloadError: the module cannot become a Program, or the package jax is missing.
    """
    _check(dtype, fusion, in_place, trips)
    if not isinstance(source, str | os.PathLike):
        return _program(read_module(source), name or "stablehlo", dtype, fusion, in_place, trips, weights)
    file = Path(source)
    data = read_bytes(file, _SUFFIX)
    with errors_named(file):
        return _program(
            read_module(data), name_of(file) if name is None else name, dtype, fusion, in_place, trips, weights
        )


def check_stablehlo(path: str | os.PathLike[str]) -> None:
    """Check that a file can be parsed.

    Raises:
        WorkloadError: it is no StableHLO module.
    """
    read_module(read_bytes(Path(path), _SUFFIX))


def from_jax(
    function: Callable[..., Any],
    *arguments: Any,
    donate_argnums: int | Collection[int] = (),
    weights: int | Collection[int] | None = None,
    dtype: str | None = None,
    fusion: str = "epilogue",
    in_place: str = "none",
    trips: int | None = None,
    name: str | None = None,
) -> Program:
    """Return the Program of a JAX function; nothing is compiled or run, and no weight needs to exist.

    Args:
        function: an argument of `jax.jit`; a function that is jitted already keeps its own donations.
        *arguments: arrays, or `jax.ShapeDtypeStruct` in their place, in trees of any kind.
        donate_argnums: arguments whose memory the results may take, as of `jax.jit`.
        weights: arguments that are weights; the others are inputs. None: the donated ones; where none is donated, those
            that are trees and not one array; where there is no tree either, all but the last. Integers are inputs.
        dtype: as in `load_stablehlo`, like `fusion`, `in_place` and `trips`.
        fusion: see there.
        in_place: see there.
        trips: see there.
        name: the Program's name; the function's if None.

    Raises:
        WorkloadError: JAX cannot lower the function, or see `load_stablehlo`.
    """
    _check(dtype, fusion, in_place, trips)
    jax = libraries().jax
    donated = _numbers(donate_argnums, len(arguments), "donate_argnums")
    chosen = None if weights is None else _numbers(weights, len(arguments), "weights")
    try:
        jitted = function if hasattr(function, "lower") else jax.jit(function, donate_argnums=donated, keep_unused=True)
        lowered = jitted.lower(*arguments)
    except Exception as error:  # the function may raise anything
        first = (str(error).strip().splitlines() or [""])[0]
        raise WorkloadError(f"JAX cannot lower the function: {type(error).__name__}: {first:.200}") from error
    leaves = [len(jax.tree.leaves(argument)) for argument in arguments]
    module = read_module(lowered.compiler_ir("stablehlo"))
    # A function that was jitted before may have dropped arguments that it does not use.
    if len(module.arguments) != sum(leaves) == len(jax.tree.leaves(lowered.args_info)):
        module = read_module(_with_unused(jax, function, lowered).lower(*arguments).compiler_ir("stablehlo"))
    if chosen is None and not any(argument.donated for argument in module.arguments):
        trees = tuple(n for n, argument in enumerate(arguments) if not jax.tree_util.all_leaves([argument]))
        chosen = trees or tuple(range(len(arguments) - 1))
    flat = None
    if chosen is not None and len(module.arguments) == sum(leaves):
        starts = [sum(leaves[:number]) for number in range(len(leaves))]
        flat = [at for n in chosen for at in range(starts[n], starts[n] + leaves[n]) if _is_float(module, at)]
    elif weights is not None:
        raise WorkloadError(
            "weights cannot apply to a jitted function with static arguments; bind these with a lambda."
        )
    given = getattr(function, "__name__", "function") if name is None else name
    return _program(module, given, dtype, fusion, in_place, trips, flat)


def _with_unused(jax: Any, function: Callable[..., Any], lowered: Any) -> Any:
    """Return the function jitted with its unused arguments, and with the donations of `lowered`."""
    donated = [number for number, of_one in enumerate(lowered.args_info[0])
               if any(leaf.donated for leaf in jax.tree.leaves(of_one))]  # fmt: skip
    again = wraps(function)(lambda *arguments: function(*arguments))
    return jax.jit(again, donate_argnums=donated, keep_unused=True)


def _check(dtype: str | None, fusion: str, in_place: str, trips: int | None) -> None:
    check_deployment(dtype, fusion, in_place, "off", "module")
    check_trips(trips)


def _program(
    module: Module,
    name: str,
    dtype: str | None,
    fusion: str,
    in_place: str,
    trips: int | None,
    weights: Collection[int] | None,
) -> Program:
    traced = trace(module, work, trips)
    constant = {traced.arguments[number] for number in _weights(module, weights)}

    def fused(ops: OpGraph) -> OpGraph:
        return fuse_loops(ops) if fusion == "epilogue" else fuse(ops, fusion)

    def ordered(branch: Trace) -> OpGraph:
        return scheduled(fused(lower(branch, dtype, constant, {}, fusion != "none")[0]))

    if traced.choices:
        times = "once" if len(traced.choices) == 1 else f"{len(traced.choices)} times"
        said = f"{name}: Where the data choose a branch, the one with most work is taken, {times}."
        conditions = ((f"condition {number}", branches) for number, branches in enumerate(traced.choices, 1))
        warnings.warn(f"{said} {branch_costs(conditions, ordered)}", stacklevel=3)
    aliases = {a.becomes: n for a, n in zip(module.arguments, traced.arguments, strict=True) if a.becomes is not None}
    ops, steps = lower(traced, dtype, constant, aliases, fusion != "none")
    in_order = scheduled(possible_aliases(ops, fused(ops), steps))
    partial = with_partial_updates(ops, in_order, steps)
    return assemble(partial, name=name, dtype=computing_dtype(ops, dtype), in_place=in_place)


def _weights(module: Module, weights: Collection[int] | None) -> Collection[int]:
    """Return the numbers of the arguments that are weights."""
    count = len(module.arguments)
    if weights is not None:
        return _numbers(weights, count, "weights")
    floating = [number for number in range(count) if _is_float(module, number)]
    donated = [number for number in floating if module.arguments[number].donated]
    if donated or any(argument.donated for argument in module.arguments):
        return donated
    return [number for number in floating if number < count - 1]


def _is_float(module: Module, number: int) -> bool:
    return module.arguments[number].type.element_type in FLOAT_BITS


def _numbers(given: int | Collection[int], count: int, name: str) -> tuple[int, ...]:
    """Return numbers of arguments, with negative ones counted from the end."""
    numbers = tuple(given) if isinstance(given, Collection) else (given,)
    if not all(isinstance(number, int) and -count <= number < count for number in numbers):
        raise WorkloadError(f"{name} is {given!r}; arguments are numbered from 0, and there are {count}.")
    return tuple(number % count for number in numbers)
