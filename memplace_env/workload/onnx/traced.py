"""Sizes that an exporter fixed while it traced the model: which sizes of its dims such a file is good for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, islice, product
from typing import Final

from onnx import ModelProto

from memplace_env.errors import WorkloadError
from memplace_env.workload.onnx.dims import Binding, how_to_pass, is_batch, symbolic_dims
from memplace_env.workload.onnx.inference import infer
from memplace_env.workload.onnx.node_checks import MisfitError

_MOST_TRIALS: Final = 64
"""Each takes as long as inferring the model up to the first misfit, some hundredths of a second."""


def advised(model: ModelProto, binding: Binding, misfit: MisfitError) -> WorkloadError:
    """The error, with sizes of the symbolic dims that do fit, found by trial among the numbers at the misfit."""
    names = symbolic_dims(binding.inputs)
    if not names:
        return WorkloadError(str(misfit))
    for sizes in islice(_trials(names, binding.sizes, misfit.sizes), _MOST_TRIALS):
        try:
            infer(model, binding.resized(sizes))
        except WorkloadError:
            continue
        return WorkloadError(
            f"{misfit} The exporter has fixed sizes in the file, which fit {_how_to_pass(sizes)}; pass that, or export "
            "the model with these dims dynamic."
        )
    given = _how_to_pass({name: binding.sizes[name] for name in names})
    return WorkloadError(
        f"{misfit} The exporter may have fixed sizes in the file; pass those it was traced at instead of {given}, or "
        "export the model with these dims dynamic."
    )


def _how_to_pass(sizes: Mapping[str, int]) -> str:
    batch = next((size for name, size in sizes.items() if is_batch(name)), None)
    return how_to_pass({name: size for name, size in sizes.items() if not is_batch(name)}, batch)


def _trials(names: Sequence[str], sizes: Mapping[str, int], numbers: Sequence[int]) -> Iterator[dict[str, int]]:
    """Sizes that differ from the given ones in few dims before those that differ in many; batches are all the same."""
    batches = [name for name in names if is_batch(name)]
    groups = [[name] for name in names if not is_batch(name)]
    groups = [batches, *groups] if batches else groups
    candidates = list(dict.fromkeys((*(number for number in numbers if number > 0), 1)))
    for count in range(1, len(groups) + 1):
        for chosen in combinations(groups, count):
            for trial in product(*([n for n in candidates if n != sizes[group[0]]] for group in chosen)):
                yield {name: size for group, size in zip(chosen, trial, strict=True) for name in group}
