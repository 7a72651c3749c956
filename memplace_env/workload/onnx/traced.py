"""Sizes that an exporter fixed while it traced the model: which sizes of its dims such a file is good for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from onnx import ModelProto

from memplace_env.errors import WorkloadError
from memplace_env.workload.onnx.dims import Binding, how_to_pass, is_batch, symbolic_dims
from memplace_env.workload.onnx.inference import infer
from memplace_env.workload.onnx.node_checks import MisfitError

_MOST_TRIES: Final = 20
_MOST_NODES: Final = 20_000
"""Each try is a pass over the whole model; of large models there are fewer."""


def advised(model: ModelProto, binding: Binding, misfit: MisfitError) -> WorkloadError:
    """The error, with sizes of the symbolic dims that fit the whole model if some are found."""
    names = symbolic_dims(binding.inputs)
    if not names:
        return WorkloadError(str(misfit))
    fitting = _fitting(model, binding, misfit)
    if fitting is not None:
        return WorkloadError(
            f"{misfit} The exporter has fixed sizes in the file, which fit {_how_to_pass(fitting)}; pass that, or "
            "export the model with these dims dynamic."
        )
    given = _how_to_pass({name: binding.sizes[name] for name in names})
    return WorkloadError(
        f"{misfit} The exporter may have fixed sizes in the file; pass those it was traced at instead of {given}, or "
        "export the model with these dims dynamic."
    )


def _fitting(model: ModelProto, binding: Binding, misfit: MisfitError) -> dict[str, int] | None:
    """Other sizes for some dims, found by giving way at one misfit after the other, each dim once; None if none fit."""
    groups = _groups(symbolic_dims(binding.inputs))
    sizes: dict[str, int] = {}
    for _ in range(min(_MOST_TRIES, 1 + _MOST_NODES // len(model.graph.node))):
        step = _step([group for group in groups if group[0] not in sizes], binding.sizes, misfit.pairs)
        if not step:
            return None
        sizes |= step
        try:
            infer(model, binding.resized(sizes))
        except MisfitError as error:
            misfit = error
        except WorkloadError:
            return None
        else:
            return sizes
    return None


def _groups(names: Sequence[str]) -> list[list[str]]:
    """Dims that have one size: the batches, then each of the others."""
    batches = [name for name in names if is_batch(name)]
    others = [[name] for name in names if not is_batch(name)]
    return [batches, *others] if batches else others


def _step(groups: list[list[str]], sizes: Mapping[str, int], pairs: Sequence[tuple[int, int]]) -> dict[str, int]:
    """New sizes for the dims whose size meets another one at the same axis; if there are none a batch of 1."""
    free, step = list(groups), {}
    for pair in pairs:
        for found, meant in (pair, pair[::-1]):
            group = next((group for group in free if sizes[group[0]] == found), None)
            if group is not None and meant > 0:
                free.remove(group)
                step.update(dict.fromkeys(group if meant != found else (), meant))
                break
    if not step and groups and is_batch(groups[0][0]) and sizes[groups[0][0]] != 1:
        return dict.fromkeys(groups[0], 1)
    return step


def _how_to_pass(sizes: Mapping[str, int]) -> str:
    batch = next((size for name, size in sizes.items() if is_batch(name)), None)
    return how_to_pass({name: size for name, size in sizes.items() if not is_batch(name)}, batch)
