"""`load_tflite`: reads a file, says it in ONNX's terms, lowers nodes to ops, fuses those, builds the arrays."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from memplace_env.errors import WorkloadError
from memplace_env.workload.lowered.assembly import assemble
from memplace_env.workload.lowered.dtypes import computing_dtype
from memplace_env.workload.lowered.fusion import FUSIONS, fuse
from memplace_env.workload.lowered.lowering import lower
from memplace_env.workload.model_file import read_bytes
from memplace_env.workload.program import FLOAT_BYTES, Program
from memplace_env.workload.tflite.graph import to_graph
from memplace_env.workload.tflite.model import Model
from memplace_env.workload.tflite.paddings import fold_paddings
from memplace_env.workload.tflite.reader import parse


def load_tflite(
    path: str | os.PathLike[str],
    *,
    batch: int | None = None,
    dims: Mapping[str, int] | None = None,
    dtype: str | None = None,
    fusion: str = "conv",
    name: str | None = None,
) -> Program:
    """Reads a TensorFlow Lite model as a Program. Bytes of weights are not looked at and may be missing.

    Ops are called as in ONNX (CONV_2D and DEPTHWISE_CONV_2D are "Conv", FULLY_CONNECTED is "Gemm", ...) and named like
    their first result. An activation that the file has inside an operator is part of its op, as if it had been fused.
    With any fusion but "none" a PAD of height and width that only a convolution without padding reads becomes its
    padding.

    Args:
        path: a .tflite file.
        batch: None or the batch that the file has; TFLite fixes all shapes, so another one needs another file.
        dims: nothing, as no dim has a name.
        dtype: dtype to deploy all floating-point tensors in and to compute in, a key of `FLOAT_BYTES`; integers keep
            their width. None keeps the file's types and computes in that of most MACs, where integers of at most 8 bits
            are int8: so is a model with int8 weights and int16 activations, whose activations have 2 bytes even so.
        fusion: see `fuse`; a fully connected layer counts as a convolution.
        name: the Program's name; the file's without its suffix if None.

    Raises:
        WorkloadError: anything that keeps the model from becoming a Program, the package `tflite` missing too. The
            message names the file, tensor or operator and says what to do.
    """
    if dtype is not None and dtype not in FLOAT_BYTES:
        raise WorkloadError(f"dtype is {dtype!r}; it must be one of {', '.join(FLOAT_BYTES)}, or None for the file's.")
    if fusion not in FUSIONS:
        raise WorkloadError(f"fusion is {fusion!r}; it must be one of {', '.join(FUSIONS)}.")
    file = Path(path)
    data = read_bytes(file, ".tflite")
    try:
        model = parse(data)
        _check_bindings(model, batch, dims)
        graph = to_graph(model)
        ops = lower(graph if fusion == "none" else fold_paddings(graph), dtype)
        computed_in = computing_dtype(ops) if dtype is None else dtype
        return assemble(fuse(ops, fusion), name=file.stem if name is None else name, dtype=computed_in)
    except WorkloadError as error:
        raise WorkloadError(f"{file.name}: {error}") from error


def check_tflite(path: str | os.PathLike[str]) -> None:
    """Reads a file.

    Raises:
        WorkloadError: it is no TensorFlow Lite model.
    """
    parse(read_bytes(Path(path), ".tflite"))


def _check_bindings(model: Model, batch: int | None, dims: Mapping[str, int] | None) -> None:
    if dims:
        raise WorkloadError(f"The model has no symbolic dims, so {', '.join(dims)} cannot be bound; leave dims out.")
    own = next((tensor.shape[0] for tensor in model.inputs if tensor.shape), None)
    if batch is not None and batch != own:
        raise WorkloadError(
            f"The model fixes its batch at {own}, so batch={batch} cannot be bound; convert it with that one."
        )
