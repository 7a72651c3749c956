"""`resolve_workload`: from the name or file of a workload to its Program."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.foreign import described
from memplace_env.program.model_file import check_in_place, check_patterns, format_of
from memplace_env.program.program import Program

STABLEHLO: Final = (".mlir", ".mlirbc", ".stablehlo")
SUFFIXES: Final = (".onnx", ".tflite", ".program", *STABLEHLO)
"""Suffixes of the files that are workloads; any of them may be compressed, as in net.onnx.xz."""

WorkloadSpec = Program | str | os.PathLike[str]


def resolve_workload(
    spec: WorkloadSpec,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    dtype: str | None = None,
    fusion: str = "conv",
    in_place: str | None = None,
    patterns: str = "off",
    trips: int | None = None,
    values: Mapping[str, float] | None = None,
    cut: str | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Program:
    """Return the Program that `spec` names.

    Args:
        spec: a zoo name in upper or lower case, a path to a file with one of `SUFFIXES`, a text like
            `synthetic:chain?ops=24`, or a Program, which is returned as it is.
        batch: see `load_onnx` and `load_tflite`; zoo workloads default to 1.
        dims: see `load_onnx`; those of zoo workloads default to `zoo.DEFAULT_DIMS`.
        dtype: see `load_onnx`; None leaves the types as they are.
        fusion: see `load_onnx`; Programs, saved or not, and synthetic workloads have no ops left to fuse, so it is
            ignored there.
        in_place: see `load_onnx`; None: "none". A Program, saved or not, loses its pairs with "none" and else keeps
            them.
        patterns: see `load_onnx`; ignored where fusion is, and for StableHLO.
        trips: see `load_onnx` and `load_stablehlo`.
        values, cut, aliases: see `load_onnx`.

    Raises:
        WorkloadError: it names nothing, the model cannot be loaded, or settings are passed that cannot apply.
    """
    _check_types(batch, dims, dtype=dtype, fusion=fusion, cut=cut, in_place=in_place, patterns=patterns)
    if in_place is not None:
        check_in_place(in_place)
    check_patterns(patterns)
    if values is not None and not (isinstance(values, Mapping) and {str}.issuperset(map(type, values))):
        raise WorkloadError(f"values are a dictionary from names of inputs to numbers, not {described(values)}.")
    if aliases and not (isinstance(aliases, Mapping) and {str}.issuperset(map(type, sum(aliases.items(), ())))):
        raise WorkloadError(f"aliases are a dictionary from outputs to inputs, not {described(aliases)}.")
    given: dict[str, Any] = {"trips": trips, "values": values, "cut": cut, "aliases": aliases}
    settings = {"batch": batch, "dims": dims, "dtype": dtype, **given}
    if isinstance(spec, Program):
        refuse_settings("A Program that is already built", **settings)
        return _in_place(spec, in_place)
    if isinstance(spec, str) and spec.startswith("synthetic:"):
        refuse_settings("A synthetic workload", **settings)
        from memplace_env.placement.synthetic import from_spec

        return from_spec(spec)
    if not isinstance(spec, str | os.PathLike):
        raise WorkloadError(f"A workload is a name, a path or a Program, not {type(spec).__name__}.")
    path = named_file(spec)
    kind = format_of(path)
    if kind == ".program":
        refuse_settings("A saved Program", **settings)
        return _in_place(Program.load(path), in_place)
    built = {"in_place": in_place or "none", "patterns": patterns}
    if kind in STABLEHLO:
        refuse_settings("A StableHLO module", batch=batch, dims=dims, values=values, cut=cut, aliases=aliases)
        from memplace_env.program.frontends.stablehlo import load_stablehlo

        return load_stablehlo(path, dtype=dtype, fusion=fusion, in_place=in_place or "none", trips=trips)
    if kind == ".tflite":
        refuse_settings("A TFLite model", values=values, aliases=aliases)
        from memplace_env.program.frontends.tflite import load_tflite

        return load_tflite(path, batch=batch, dims=dims, dtype=dtype, fusion=fusion, trips=trips, cut=cut, **built)
    # onnx takes 0.1 s to import, which synthetic workloads need not pay.
    from memplace_env.program.frontends.onnx import load_onnx

    sizes = onnx_dims(spec, batch, dims)
    return load_onnx(path, batch=batch, dims=sizes, dtype=dtype, fusion=fusion, **(given | built))


def _in_place(program: Program, in_place: str | None) -> Program:
    """Return a Program that is built already, without pairs if it is to have none."""
    return replace(program, inplace=program.inplace[:0]) if in_place == "none" and len(program.inplace) else program


def onnx_dims(
    spec: str | os.PathLike[str], batch: int | None, dims: Mapping[str, int] | None
) -> Mapping[str, int] | None:
    """Return the sizes of an ONNX model's symbolic dims: those given, and for a name of the zoo its defaults.

    Raises:
        WorkloadError: there is no such model, or it cannot be read.
    """
    if not isinstance(spec, str) or is_path(spec):
        return dims
    from memplace_env.program.frontends.onnx import model_dims
    from memplace_env.program.zoo import DEFAULT_DIMS

    given = {} if dims is None else dict(dims)
    taken = given.keys() | ({"batch"} if batch is not None else set())
    symbolic = model_dims(named_file(spec))
    return {dim: DEFAULT_DIMS[dim] for dim in symbolic if dim in DEFAULT_DIMS and dim not in taken} | given


def _check_types(batch: object, dims: object, **names: object) -> None:
    """Refuse settings of the wrong types; loaders check their values."""
    for name, text in names.items():
        if text is not None and not isinstance(text, str):
            raise WorkloadError(f"{name} is a name, not {described(text)}.")
    if dims is not None and not isinstance(dims, Mapping):
        raise WorkloadError(f"dims are a dictionary from names to sizes, not {described(dims)}.")
    for name, size in {"batch": batch, **(dims or {})}.items():
        if not isinstance(name, str):
            raise WorkloadError(f"The name of a dim is text, not {described(name)}.")
        if size is not None and (not isinstance(size, int | np.integer) or abs(int(size)) >= 2**63):
            raise WorkloadError(f"The size of {name!r} is {described(size)}; a dim is a whole number above 0.")


def is_path(spec: str) -> bool:
    """Return whether a text means a file, and not a name of the zoo."""
    return spec.lower().removesuffix(".xz").endswith(SUFFIXES) or "/" in spec or os.sep in spec


def named_file(spec: str | os.PathLike[str]) -> Path:
    """Return the file that a path or a name of the zoo means.

    Raises:
        WorkloadError: the zoo has no such name.
    """
    if not isinstance(spec, str) or is_path(spec):
        return Path(spec)
    from memplace_env.program.zoo import zoo_path

    return zoo_path(spec)


def is_built(spec: WorkloadSpec) -> bool:
    """Return whether a workload's types and ops are final: it is a Program, saved or not, or synthetic.

    Raises:
        WorkloadError: the zoo has no such name.
    """
    if isinstance(spec, Program) or (isinstance(spec, str) and spec.startswith("synthetic:")):
        return True
    return isinstance(spec, str | os.PathLike) and format_of(named_file(spec)) == ".program"


def has_own_types(spec: WorkloadSpec) -> bool:
    """Return whether a workload keeps its own types, not those of the chip: StableHLO is mixed on purpose.

    Raises:
        WorkloadError: the zoo has no such name.
    """
    return is_built(spec) or (isinstance(spec, str | os.PathLike) and format_of(named_file(spec)) in STABLEHLO)


def symbolic_dims(spec: str) -> tuple[str, ...] | None:
    """Return names of a model's symbolic dims, which only ONNX has; None for Programs and synthetic workloads.

    Raises:
        WorkloadError: there is no such model, or it cannot be read.
    """
    if is_built(spec):
        if not spec.startswith("synthetic:"):
            Program.load(named_file(spec))
        return None
    path = named_file(spec)
    if format_of(path) in STABLEHLO:
        from memplace_env.program.frontends.stablehlo import check_stablehlo

        check_stablehlo(path)
        return ()
    if format_of(path) == ".tflite":
        from memplace_env.program.frontends.tflite import check_tflite

        check_tflite(path)
        return ()
    from memplace_env.program.frontends.onnx import model_dims

    return tuple(model_dims(path))


def refuse_settings(what: str, **settings: object) -> None:
    """Refuse settings of a workload that is final.

    Raises:
        WorkloadError: naming those that are not None.
    """
    passed = [name for name, value in settings.items() if value is not None]
    if passed:
        them = "it" if len(passed) == 1 else "them"
        raise WorkloadError(f"{what} is fixed already, so {' and '.join(passed)} cannot apply; leave {them} out.")
