"""Operators that select elements by index. Negative indices count from the end: a remainder makes them positive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode

_REDUCE: Final = {"mul": "prod", "max": "amax", "min": "amin"}
"""PyTorch's names of ONNX's reductions of old and new elements."""


def selection(node: OperatorNode, chosen: Mapping[int, NDArray[Any]]) -> Kernel:
    """Return a kernel that selects elements along some axes by indices that are known before the network runs."""
    indices = {axis: torch.from_numpy(array.astype(np.int64)).to(node.device) for axis, array in chosen.items()}

    def select(x: Tensor, *_: Tensor | None) -> Tensor:
        for axis, index in indices.items():
            x = x.index_select(axis, index)
        return x

    return select


def _gather(node: OperatorNode) -> Kernel:
    shape = node.shape(0)
    axis = node.axis(0, len(shape))
    index = node.constants.get(1)
    if index is not None and index.ndim == 0:
        number = int(index)
        return lambda x, _: x.select(axis, number)
    chosen = node.once(1, lambda indices: indices.remainder(shape[axis]).flatten())
    result = (*shape[:axis], *node.shape(1), *shape[axis + 1 :])
    return lambda x, indices: x.index_select(axis, chosen(indices)).reshape(result)


def _gather_elements(node: OperatorNode) -> Kernel:
    axis = node.axis(0, len(node.shape(0)))
    chosen = _along(node, axis)
    return lambda x, indices: x.gather(axis, chosen(indices))


def _scatter_elements(node: OperatorNode) -> Kernel:
    axis, reduction = node.axis(0, len(node.shape(0))), node.attribute("reduction", "none")
    chosen = _along(node, axis)
    if reduction == "none":
        return lambda x, indices, updates: x.scatter(axis, chosen(indices), updates)
    if reduction == "add":
        return lambda x, indices, updates: x.scatter_add(axis, chosen(indices), updates)
    way = _REDUCE[reduction]
    return lambda x, indices, updates: x.scatter_reduce(axis, chosen(indices), updates, way)


def _along(node: OperatorNode, axis: int) -> Callable[[Tensor], Tensor]:
    size = node.shape(0)[axis]
    return node.once(1, lambda indices: indices.long().remainder(size))


def _gather_nd(node: OperatorNode) -> Kernel:
    shape, batch = node.shape(0), node.attribute("batch_dims", 0)
    depth = batch + node.shape(1)[-1]
    chosen = node.once(1, lambda indices: _flat(indices, shape[:depth], batch))
    result = (*node.shape(1)[:-1], *shape[depth:])
    return lambda x, indices: _rows(x, depth).index_select(0, chosen(indices)).reshape(result)


def _scatter_nd(node: OperatorNode) -> Kernel:
    shape, reduction = node.shape(0), node.attribute("reduction", "none")
    depth = node.shape(1)[-1]
    chosen = node.once(1, lambda indices: _flat(indices, shape[:depth], 0))

    def scatter(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        rows, at = _rows(x, depth), chosen(indices)
        new = updates.reshape(-1, rows.shape[1])
        if reduction == "none":
            result = rows.index_copy(0, at, new)
        elif reduction == "add":
            result = rows.index_add(0, at, new)
        else:
            result = rows.scatter_reduce(0, at.unsqueeze(1).expand_as(new), new, _REDUCE[reduction])
        return result.reshape(x.shape)

    return scatter


def _rows(x: Tensor, depth: int) -> Tensor:
    """Reshape to two axes: the first `depth` ones as one, the others as another."""
    first = int(np.prod(x.shape[:depth], dtype=np.int64))
    return x.reshape(first, int(np.prod(x.shape[depth:], dtype=np.int64)))


def _flat(indices: Tensor, sizes: tuple[int, ...], batch: int) -> Tensor:
    """Return row numbers of indices into the first axes; along the first `batch` of these each selects from its own."""
    numbers = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=indices.device)
    for axis, size in enumerate(sizes):
        if axis < batch:
            own = torch.arange(size, device=indices.device)
            at = own.reshape(*(-1 if index == axis else 1 for index in range(numbers.ndim)))
        else:
            at = indices[..., axis - batch].remainder(size)
        numbers = numbers * size + at  # row-major: the last axis varies fastest
    return numbers.flatten()


def _top_k(node: OperatorNode) -> Kernel:
    axis, largest = node.axis(-1, len(node.shape(0))), bool(node.attribute("largest", 1))
    count = int(node.constant(1)) if node.has(1) else node.attributes["k"]

    def top(x: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        # Of equal elements the first ones count: `torch.topk` takes any.
        values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)
        return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)

    return top


def _one_hot(node: OperatorNode) -> Kernel:
    (depth,) = node.integers(1) or (0,)
    axis = node.axis(-1, len(node.shape(0)) + 1)
    shape = [-1 if at == axis else 1 for at in range(len(node.shape(0)) + 1)]

    def one_hot(indices: Tensor, _: Tensor, values: Tensor) -> Tensor:
        numbers = torch.arange(depth, device=indices.device).reshape(shape)
        inside = (indices >= -depth) & (indices < depth)
        hot = (indices.remainder(depth).unsqueeze(axis) == numbers) & inside.unsqueeze(axis)
        return torch.where(hot, values[1], values[0])

    return one_hot


INDEXING: Final[Mapping[str, Builder]] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "OneHot": _one_hot,
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "TopK": _top_k,
}
