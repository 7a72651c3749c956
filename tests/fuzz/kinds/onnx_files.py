"""Damaged .onnx files: small graphs that together reach the loader's rules, with bytes or fields changed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

from memplace_env.program.frontends.onnx import load_onnx
from memplace_env.program.model_file import LONGEST
from memplace_env.program.program import Program
from tests.fuzz import Wrong
from tests.fuzz.mutations import change_field, damaged, pick
from tests.fuzz.onnx_seeds import seeds

NAME = "ONNX files"
CASES = 10_000
_FUSIONS = ("none", "activation", "chain", "conv", "epilogue")


def prepare(folder: Path) -> tuple[list[ModelProto], list[bytes], list[list[str]]]:
    """The models, their bytes, and for each the words that texts in it may become."""
    models = seeds()
    words = [{word for node in model.graph.node for word in (*node.input, *node.output)} for model in models]
    op_types = {node.op_type for model in models for node in model.graph.node}
    return (
        models,
        [model.SerializeToString() for model in models],
        [sorted(own) * 3 + sorted(op_types) for own in words],
    )


def case(prepared: Any, rng: np.random.Generator, folder: Path) -> bool:
    """Load one damaged file with settings that fit or do not."""
    models, files, words = prepared
    number = int(rng.integers(len(models)))
    kind = rng.random()
    if kind < 0.2:
        data = damaged(files[number], rng, files)
    else:
        model = ModelProto()
        model.CopyFrom(models[number])
        for _ in range(int(rng.integers(1, 4))):
            part, donor = pick(rng, _parts(model)), pick(rng, models)
            like = [other for other in _parts(donor) if type(other) is type(part)]
            change_field(part, rng, words[number], pick(rng, like or [part]))
        data = model.SerializeToString()
    path = folder / "model.onnx"
    path.write_bytes(data)
    dims = {"length": 6} if b"length" in data else {}
    if rng.random() < 0.1:
        dims |= {pick(rng, ("batch", "k.0", "e[1]")): int(rng.integers(1, 5))}
    batch, dtype = pick(rng, (1, 1, 1, 1, 3, None)), pick(rng, (None, "int8"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(the data choose a branch|is taken as 1|does not hold)")
        values = {"c": pick(rng, (0, 1, 2.5))} if b"If" in data and rng.random() < 0.3 else None
        check_program(load_onnx(path, batch=batch, dims=dims, values=values, dtype=dtype, fusion=pick(rng, _FUSIONS)))
    return True


def check_program(program: Program) -> None:
    """Refuse a Program that is not safe to show, or whose sums leave int64."""
    for name in (program.name, *program.op_type, *program.op_name, *program.tensor_name):
        if not name.isprintable() or len(name) > LONGEST:
            raise Wrong(f"the name {name!r}")
    totals = (program.tensor_bytes, program.macs, program.vector_ops, program.use_bytes)
    if any(total.astype(float).sum() >= 2**63 or total.min(initial=0) < 0 for total in totals):
        raise Wrong("a sum that leaves int64")


def _parts(model: ModelProto) -> list[Any]:
    """Return the start of a change: mostly a node or a constant."""
    graph = model.graph
    return [*graph.node, *graph.node, *graph.initializer, *model.functions, graph, graph, graph, model]
