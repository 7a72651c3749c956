"""Sizes that an exporter fixed while it traced the model, and the sizes of symbolic dims that fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from onnx import ModelProto

from memplace_env._lib.errors import WorkloadError
from memplace_env.program.frontends.onnx.dims import Binding, how_to_pass, is_batch, symbolic_dims
from memplace_env.program.frontends.onnx.inference import infer
from memplace_env.program.frontends.onnx.node_checks import MisfitError

_MOST_TRIES: Final = 20
_MOST_NODES: Final = 20_000
"""Most nodes of all tries together: each is a pass over the whole model, so large models get fewer."""


def advised(model: ModelProto, binding: Binding, misfit: MisfitError) -> WorkloadError:
    """Return the error, with sizes of the symbolic dims that fit the whole model if some are found."""
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
    """Return other sizes for some dims, found by resolving one misfit after another; None if none fit."""
    groups = _groups(symbolic_dims(binding.inputs))
    sizes: dict[str, int] = {}
    # Each round fixes the dims of at least one group for good, so no size is tried twice.
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
    """Return groups of dims of equal size: all batches first, then each other dim alone."""
    batches = [name for name in names if is_batch(name)]
    others = [[name] for name in names if not is_batch(name)]
    return [batches, *others] if batches else others


def _step(groups: list[list[str]], sizes: Mapping[str, int], pairs: Sequence[tuple[int, int]]) -> dict[str, int]:
    """Return new sizes for the dims that conflict with another size at the same axis; without any a batch of 1."""
    free, step = list(groups), {}
    for pair in pairs:
        # Either of the two sizes may be that of a symbolic dim, and the other the one that the exporter fixed.
        for bound, fixed in (pair, pair[::-1]):
            group = next((group for group in free if sizes[group[0]] == bound), None)
            if group is not None and fixed > 0:
                free.remove(group)
                step.update(dict.fromkeys(group if fixed != bound else (), fixed))
                break
    if not step and groups and is_batch(groups[0][0]) and sizes[groups[0][0]] != 1:
        return dict.fromkeys(groups[0], 1)
    return step


def _how_to_pass(sizes: Mapping[str, int]) -> str:
    batch = next((size for name, size in sizes.items() if is_batch(name)), None)
    return how_to_pass({name: size for name, size in sizes.items() if not is_batch(name)}, batch)
