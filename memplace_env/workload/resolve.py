"""`resolve_workload`: from whatever names a workload to its Program."""

from __future__ import annotations

import os
from collections.abc import Mapping

from memplace_env.errors import WorkloadError
from memplace_env.workload.program import Program

WorkloadSpec = Program | str | os.PathLike[str]


def resolve_workload(
    spec: WorkloadSpec,
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    dtype: str | None = None,
    fusion: str = "conv",
) -> Program:
    """The Program that `spec` names.

    Args:
        spec: a zoo name in upper or lower case, a path to an .onnx or .tflite file, a text like
            `synthetic:chain?ops=24`, or a Program, which is returned as it is.
        batch: see `load_onnx` and `load_tflite`; zoo workloads default to 1.
        dims: see `load_onnx`; those of zoo workloads default to `zoo.DEFAULT_DIMS`.
        dtype: see `load_onnx`.
        fusion: see `load_onnx`; Programs and synthetic workloads have no ops left to fuse, so it is ignored there.

    Raises:
        WorkloadError: it names nothing, the model cannot be loaded, or settings are passed that cannot apply.
    """
    if isinstance(spec, Program):
        _refuse_settings("A Program that is already built", batch=batch, dims=dims, dtype=dtype)
        return spec
    if isinstance(spec, str) and spec.startswith("synthetic:"):
        _refuse_settings("A synthetic workload", batch=batch, dims=dims, dtype=dtype)
        from memplace_env.workload.synthetic import from_spec

        return from_spec(spec)
    if not isinstance(spec, str | os.PathLike):
        raise WorkloadError(f"A workload is a name, a path or a Program, not {type(spec).__name__}.")
    if is_tflite(spec):
        from memplace_env.workload.tflite import load_tflite

        return load_tflite(spec, batch=batch, dims=dims, dtype=dtype, fusion=fusion)
    # onnx takes 0.1 s to import, which synthetic workloads need not pay.
    from memplace_env.workload.onnx import load_onnx, model_dims

    if not isinstance(spec, str) or is_path(spec):
        return load_onnx(spec, batch=batch, dims=dims, dtype=dtype, fusion=fusion)
    from memplace_env.workload.zoo import DEFAULT_DIMS, zoo_path

    path = zoo_path(spec)
    given = {} if dims is None else dict(dims)
    taken = given.keys() | ({"batch"} if batch is not None else set())
    defaults = {dim: DEFAULT_DIMS[dim] for dim in model_dims(path) if dim in DEFAULT_DIMS and dim not in taken}
    return load_onnx(path, batch=batch, dims=defaults | given, dtype=dtype, fusion=fusion)


def is_path(spec: str) -> bool:
    """Whether a text means a file, and not a name of the zoo."""
    return spec.lower().endswith(".onnx") or is_tflite(spec) or "/" in spec or os.sep in spec


def is_tflite(path: str | os.PathLike[str]) -> bool:
    """Whether a path means a TensorFlow Lite model, by its suffix."""
    return os.fspath(path).lower().endswith(".tflite")


def _refuse_settings(what: str, **settings: object) -> None:
    passed = [name for name, value in settings.items() if value is not None]
    if passed:
        raise WorkloadError(f"{what} is fixed already, so {' and '.join(passed)} cannot apply; leave them out.")
