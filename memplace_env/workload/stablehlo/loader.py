"""`load_stablehlo` and `from_jax`: reads a module, unrolls it, lowers, fuses and orders its operations."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from functools import wraps
from pathlib import Path
from typing import Any, Final

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.assembly import assemble
from memplace_env.workload.lowered.dtypes import computing_dtype
from memplace_env.workload.lowered.fusion import FUSIONS, fuse
from memplace_env.workload.lowered.values import FLOAT_BITS
from memplace_env.workload.model_file import read_bytes
from memplace_env.workload.program import FLOAT_BYTES, Program
from memplace_env.workload.stablehlo.aliases import possible_aliases, with_partial_updates
from memplace_env.workload.stablehlo.fusion import fuse_loops
from memplace_env.workload.stablehlo.library import libraries
from memplace_env.workload.stablehlo.lowering import lower
from memplace_env.workload.stablehlo.module import Module
from memplace_env.workload.stablehlo.operators import work
from memplace_env.workload.stablehlo.reader import read_module
from memplace_env.workload.stablehlo.schedule import scheduled
from memplace_env.workload.stablehlo.tracer import trace

_SUFFIX: Final = ".mlir"


def load_stablehlo(
    source: str | os.PathLike[str] | Any,
    *,
    dtype: str | None = None,
    fusion: str = "epilogue",
    trips: int | None = None,
    weights: Collection[int] | None = None,
    name: str | None = None,
) -> Program:
    """Reads a StableHLO module, such as a training step that JAX lowered, as a Program.

    Calls are inlined, loops unrolled; of a branch that data decides the one with most work is taken. The ops run in an
    order that keeps few bytes alive (`scheduled`). A donated argument whose output takes its place gives `alias_of`.

    Args:
        source: the path of a file with text, bytecode or an artifact of `jax.export`; or a module of MLIR, as
            `jax.jit(f).lower(...).compiler_ir("stablehlo")` gives it.
        dtype: dtype to deploy all floating-point tensors in and to compute in, a key of `FLOAT_BYTES`; None keeps the
            types that are written and computes in that of most MACs.
        fusion: see `fuse`; "epilogue" is here what XLA does, see `fuse_loops`.
        trips: how often a loop runs of which the module does not say it.
        weights: numbers of main's arguments that are weights; the others are inputs. None: the donated ones that hold
            floating-point numbers; where none is donated, those with floating-point numbers but the last argument.
        name: the Program's name; the file's without its suffix if None.

    Raises:
        WorkloadError: anything that keeps the module from becoming a Program, the package jax missing too.
    """
    _check(dtype, fusion, trips)
    if not isinstance(source, str | os.PathLike):
        return _program(read_module(source), name or "stablehlo", dtype, fusion, trips, weights)
    file = Path(source)
    data = read_bytes(file, _SUFFIX)
    try:
        return _program(read_module(data), file.stem if name is None else name, dtype, fusion, trips, weights)
    except WorkloadError as error:
        raise WorkloadError(f"{file.name}: {error}") from error


def check_stablehlo(path: str | os.PathLike[str]) -> None:
    """Reads a file.

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
    trips: int | None = None,
    name: str | None = None,
) -> Program:
    """The Program of a JAX function; nothing is compiled or run, and no weight needs to exist.

    Args:
        function: what `jax.jit` takes; one that is jitted already keeps its own donations.
        *arguments: arrays, or `jax.ShapeDtypeStruct` in their place, in trees of any kind.
        donate_argnums: arguments whose memory the results may take, as of `jax.jit`.
        weights: arguments that are weights; the others are inputs. None: the donated ones; where none is donated, those
            that are trees and not one array; where there is no tree either, all but the last. Integers are inputs.
        dtype: see `load_stablehlo`.
        fusion: see `load_stablehlo`.
        trips: see `load_stablehlo`.
        name: the Program's name; the function's if None.

    Raises:
        WorkloadError: JAX cannot lower the function, or see `load_stablehlo`.
    """
    _check(dtype, fusion, trips)
    jax = libraries().jax
    donated = _numbers(donate_argnums, len(arguments), "donate_argnums")
    chosen = None if weights is None else _numbers(weights, len(arguments), "weights")
    try:
        jitted = function if hasattr(function, "lower") else jax.jit(function, donate_argnums=donated, keep_unused=True)
        lowered = jitted.lower(*arguments)
    except Exception as error:  # whatever the function raises
        first = (str(error).strip().splitlines() or [""])[0]
        raise WorkloadError(f"JAX cannot lower the function: {type(error).__name__}: {first:.200}") from error
    leaves = [len(jax.tree.leaves(argument)) for argument in arguments]
    module = read_module(lowered.compiler_ir("stablehlo"))
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
    return _program(module, given, dtype, fusion, trips, flat)


def _with_unused(jax: Any, function: Callable[..., Any], lowered: Any) -> Any:
    """The function, jitted so that arguments that it does not use stay numbered; `lowered` says which are donated."""
    donated = [number for number, of_one in enumerate(lowered.args_info[0])
               if any(leaf.donated for leaf in jax.tree.leaves(of_one))]  # fmt: skip
    again = wraps(function)(lambda *arguments: function(*arguments))
    return jax.jit(again, donate_argnums=donated, keep_unused=True)


def _check(dtype: str | None, fusion: str, trips: int | None) -> None:
    if dtype is not None and dtype not in FLOAT_BYTES:
        raise WorkloadError(
            f"dtype is {dtype!r}; it must be one of {', '.join(FLOAT_BYTES)}, or None for the module's."
        )
    if fusion not in FUSIONS:
        raise WorkloadError(f"fusion is {fusion!r}; it must be one of {', '.join(FUSIONS)}.")
    if trips is not None and (type(trips) is not int or trips < 0):
        raise WorkloadError(f"trips is {trips!r}; it is how often a loop runs, a whole number from 0.")


def _program(
    module: Module, name: str, dtype: str | None, fusion: str, trips: int | None, weights: Collection[int] | None
) -> Program:
    traced = trace(module, work, trips)
    constant = {traced.arguments[number] for number in _weights(module, weights)}
    places = {traced.outputs[a.becomes]: n for a, n in zip(module.arguments, traced.arguments, strict=True)
              if a.becomes is not None and 0 <= a.becomes < len(traced.outputs)}  # fmt: skip
    ops, in_place = lower(traced, dtype, constant, places, fusion != "none")
    computed_in = computing_dtype(ops) if dtype is None else dtype
    fused = fuse_loops(ops) if fusion == "epilogue" else fuse(ops, fusion)
    ordered = scheduled(possible_aliases(ops, fused, in_place))
    return assemble(with_partial_updates(ops, ordered, in_place), name=name, dtype=computed_in)


def _weights(module: Module, weights: Collection[int] | None) -> Collection[int]:
    """Numbers of the arguments that are weights."""
    everyone = range(len(module.arguments))
    if weights is not None:
        return _numbers(weights, len(everyone), "weights")
    floating = [number for number in everyone if _is_float(module, number)]
    donated = [number for number in floating if module.arguments[number].donated]
    if donated or any(argument.donated for argument in module.arguments):
        return donated
    return [number for number in floating if number < len(everyone) - 1]


def _is_float(module: Module, number: int) -> bool:
    return module.arguments[number].type.element_type in FLOAT_BITS


def _numbers(given: int | Collection[int], arguments: int, what: str) -> tuple[int, ...]:
    """Numbers of arguments, negative ones from the end."""
    numbers = tuple(given) if isinstance(given, Collection) else (given,)
    if not all(isinstance(number, int) and -arguments <= number < arguments for number in numbers):
        raise WorkloadError(f"{what} is {given!r}; arguments are numbered from 0, and there are {arguments}.")
    return tuple(number % arguments for number in numbers)
