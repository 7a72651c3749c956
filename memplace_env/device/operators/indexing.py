"""Operators that choose elements by their numbers. Numbers below 0 count from the end: a remainder mends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from memplace_env.device.operators.node import Builder, Kernel, Node

_REDUCE: Final = {"mul": "prod", "max": "amax", "min": "amin"}
"""PyTorch's names of ONNX's ways to bring old and new elements together."""


def selection(node: Node, chosen: Mapping[int, NDArray[Any]]) -> Kernel:
    """For some axes the numbers of the input's elements that are to lie along them, known beforehand."""
    indices = {axis: torch.from_numpy(each.astype(np.int64)).to(node.device) for axis, each in chosen.items()}

    def select(x: Tensor, *_: Tensor | None) -> Tensor:
        for axis, each in indices.items():
            x = x.index_select(axis, each)
        return x

    return select


def _gather(node: Node) -> Kernel:
    shape = node.shape(0)
    axis = node.axis(0, len(shape))
    index = node.constants.get(1)
    if index is not None and index.ndim == 0:
        number = int(index)
        return lambda x, _: x.select(axis, number)
    chosen = node.once(1, lambda indices: indices.remainder(shape[axis]).flatten())
    result = (*shape[:axis], *node.shape(1), *shape[axis + 1 :])
    return lambda x, indices: x.index_select(axis, chosen(indices)).reshape(result)


def _gather_elements(node: Node) -> Kernel:
    axis = node.axis(0, len(node.shape(0)))
    chosen = _along(node, axis)
    return lambda x, indices: x.gather(axis, chosen(indices))


def _scatter_elements(node: Node) -> Kernel:
    axis, reduction = node.axis(0, len(node.shape(0))), node.attribute("reduction", "none")
    chosen = _along(node, axis)
    if reduction == "none":
        return lambda x, indices, updates: x.scatter(axis, chosen(indices), updates)
    if reduction == "add":
        return lambda x, indices, updates: x.scatter_add(axis, chosen(indices), updates)
    way = _REDUCE[reduction]
    return lambda x, indices, updates: x.scatter_reduce(axis, chosen(indices), updates, way)


def _along(node: Node, axis: int) -> Callable[[Tensor], Tensor]:
    size = node.shape(0)[axis]
    return node.once(1, lambda indices: indices.long().remainder(size))


def _gather_nd(node: Node) -> Kernel:
    shape, batch = node.shape(0), node.attribute("batch_dims", 0)
    depth = batch + node.shape(1)[-1]
    chosen = node.once(1, lambda indices: _flat(indices, shape[:depth], batch))
    result = (*node.shape(1)[:-1], *shape[depth:])
    return lambda x, indices: _rows(x, depth).index_select(0, chosen(indices)).reshape(result)


def _scatter_nd(node: Node) -> Kernel:
    shape, reduction = node.shape(0), node.attribute("reduction", "none")
    depth = node.shape(1)[-1]
    chosen = node.once(1, lambda indices: _flat(indices, shape[:depth], 0))

    def scatter(x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
        rows, at = _rows(x, depth), chosen(indices)
        new = updates.reshape(-1, rows.shape[1])
        if reduction == "none":
            made = rows.index_copy(0, at, new)
        elif reduction == "add":
            made = rows.index_add(0, at, new)
        else:
            made = rows.scatter_reduce(0, at.unsqueeze(1).expand_as(new), new, _REDUCE[reduction])
        return made.reshape(x.shape)

    return scatter


def _rows(x: Tensor, depth: int) -> Tensor:
    """The first axes as one, the others as another."""
    first = int(np.prod(x.shape[:depth], dtype=np.int64))
    return x.reshape(first, int(np.prod(x.shape[depth:], dtype=np.int64)))


def _flat(indices: Tensor, sizes: tuple[int, ...], batch: int) -> Tensor:
    """Row numbers of indices into the first axes; in the first `batch` of these each picks from its own part."""
    numbers = torch.zeros(indices.shape[:-1], dtype=torch.int64, device=indices.device)
    for axis, size in enumerate(sizes):
        if axis < batch:
            own = torch.arange(size, device=indices.device)
            at = own.reshape(*(-1 if each == axis else 1 for each in range(numbers.ndim)))
        else:
            at = indices[..., axis - batch].remainder(size)
        numbers = numbers * size + at
    return numbers.flatten()


def _top_k(node: Node) -> Kernel:
    axis, largest = node.axis(-1, len(node.shape(0))), bool(node.attribute("largest", 1))
    count = int(node.constant(1)) if node.has(1) else node.attributes["k"]

    def top(x: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        # Of equals the first ones: `torch.topk` takes any.
        values, indices = torch.sort(x, dim=axis, descending=largest, stable=True)
        return values.narrow(axis, 0, count), indices.narrow(axis, 0, count)

    return top


def _one_hot(node: Node) -> Kernel:
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
