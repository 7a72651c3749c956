"""Operators that rearrange their input's elements, and those whose results follow from shapes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from memplace_env._lib.units import ceil_div
from memplace_env.backends.cuda.operators.indexing import selection
from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode, always
from memplace_env.backends.cuda.operators.windows import padded


def _reshape(node: OperatorNode) -> Kernel:
    old, wanted = node.shape(0), node.integers(1, "shape") or ()
    if not node.attribute("allowzero", 0):
        wanted = tuple(old[at] if size == 0 else size for at, size in enumerate(wanted))
    if -1 in wanted:  # PyTorch cannot infer it if another size is 0
        rest = int(np.prod([size for size in wanted if size != -1], dtype=np.int64))
        wanted = tuple(int(np.prod(old, dtype=np.int64)) // max(1, rest) if size == -1 else size for size in wanted)
    return lambda x, *_: x.reshape(wanted)


def _flatten(node: OperatorNode) -> Kernel:
    axis = node.axis(1, len(node.shape(0)))
    sizes = [int(np.prod(part, dtype=np.int64)) for part in (node.shape(0)[:axis], node.shape(0)[axis:])]
    return lambda x: x.reshape(sizes)


def _transpose(node: OperatorNode) -> Kernel:
    order = node.attribute("perm", range(len(node.shape(0)))[::-1])
    return lambda x: x.permute(*order)


def _squeeze(node: OperatorNode) -> Kernel:
    axes = node.integers(1, "axes")
    if axes is None:
        axes = tuple(at for at, size in enumerate(node.shape(0)) if size == 1)
    return lambda x, *_: x.squeeze(axes)


def _unsqueeze(node: OperatorNode) -> Kernel:
    axes = node.integers(1, "axes") or ()
    rank = len(node.shape(0)) + len(axes)
    new = {axis % rank for axis in axes}
    old = iter(node.shape(0))
    shape = [1 if at in new else next(old) for at in range(rank)]
    return lambda x, *_: x.reshape(shape)


def _dropout(node: OperatorNode) -> Kernel:
    """Return a kernel for inference, where nothing is dropped."""
    if node.outputs == 1:
        return lambda x, *_: x
    return lambda x, *_: (x, torch.ones_like(x, dtype=torch.bool))


def _expand(node: OperatorNode) -> Kernel:
    shape = np.broadcast_shapes(node.shape(0), node.integers(1) or ())
    return lambda x, _: x.expand(shape)


def _concat(node: OperatorNode) -> Kernel:
    return lambda *given: torch.cat(given, node.attributes["axis"])


def _split(node: OperatorNode) -> Kernel:
    axis = node.axis(0, len(node.shape(0)))
    size, given = node.shape(0)[axis], node.integers(1, "split")
    chunk = ceil_div(size, node.outputs)
    sizes = [max(0, min(chunk, size - at * chunk)) for at in range(node.outputs)] if given is None else list(given)
    return lambda x, *_: torch.split(x, sizes, axis)


def _slice(node: OperatorNode) -> Kernel:
    starts, ends = node.integers(1, "starts") or (), node.integers(2, "ends") or ()
    axes, steps = node.integers(3, "axes") or range(len(starts)), node.integers(4) or (1,) * len(starts)
    cut, turned = [slice(None)] * len(node.shape(0)), []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        reach = _reach(start, end, step, node.shape(0)[axis])
        if step < 0:  # PyTorch has no views with negative steps
            turned.append(axis)
            reach = reach[::-1]
        cut[axis] = slice(reach.start, reach.stop, reach.step) if reach else slice(0, 0)
    where = tuple(cut)
    return lambda x, *_: x[where].flip(turned) if turned else x[where]


def _reach(start: int, end: int, step: int, size: int) -> range:
    """Return the elements of a slice; unlike in Python, a start before the first element means the first for negative
    steps too."""
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    if step > 0:
        return range(min(max(start, 0), size), min(max(end, 0), size), step)
    return range(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


def _pad(node: OperatorNode) -> Kernel:
    rank, mode = len(node.shape(0)), node.attribute("mode", "constant")
    pads, axes = node.integers(1, "pads") or (), node.integers(3) or tuple(range(rank))
    begin, end = [0] * rank, [0] * rank
    for at, axis in enumerate(axes):
        begin[axis], end[axis] = pads[at], pads[at + len(axes)]
    if mode == "constant":
        value = node.constant(2).item() if node.has(2) else node.attribute("value", 0)
        return lambda x, *_: padded(x, tuple(begin), tuple(end), value)
    if mode not in ("reflect", "edge", "wrap"):
        raise node.error(f"mode {mode!r} is not supported")
    chosen = {}
    for axis, size in enumerate(node.shape(0)):
        if begin[axis] or end[axis]:
            kept = np.arange(size)[max(0, -begin[axis]) : size - max(0, -end[axis])]
            chosen[axis] = np.pad(kept, (max(0, begin[axis]), max(0, end[axis])), mode=mode)
    return selection(node, chosen)


def _trilu(node: OperatorNode) -> Kernel:
    diagonal = (node.integers(1) or (0,))[0]
    kernel = torch.triu if node.attribute("upper", 1) else torch.tril
    return lambda x, *_: kernel(x, diagonal)


def _depth_to_space(node: OperatorNode) -> Kernel:
    block = node.attributes["blocksize"]
    if node.attribute("mode", "DCR") == "CRD":
        return partial(functional.pixel_shuffle, upscale_factor=block)
    _, depth, height, width = node.shape(0)
    inner = (block, block, depth // block**2, height, width)
    return lambda x: (
        x.reshape(-1, *inner).permute(0, 3, 4, 1, 5, 2).reshape(-1, inner[2], height * block, width * block)
    )


def _space_to_depth(node: OperatorNode) -> Kernel:
    block = node.attributes["blocksize"]
    _, depth, height, width = node.shape(0)
    inner = (depth, height // block, block, width // block, block)
    return lambda x: x.reshape(-1, *inner).permute(0, 3, 5, 1, 2, 4).reshape(-1, depth * block**2, inner[1], inner[3])


def _tile(node: OperatorNode) -> Kernel:
    repeats = node.integers(1) or ()
    return lambda x, _: x.repeat(repeats)


MOVES: Final[Mapping[str, Builder]] = {
    "Concat": _concat,
    "DepthToSpace": _depth_to_space,
    "Dropout": _dropout,
    "Expand": _expand,
    "Flatten": _flatten,
    "Identity": always(lambda x: x),
    "Pad": _pad,
    "Reshape": _reshape,
    "Slice": _slice,
    "SpaceToDepth": _space_to_depth,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": _transpose,
    "Trilu": _trilu,
    "Unsqueeze": _unsqueeze,
}


def _constant(node: OperatorNode) -> Kernel:
    (value,) = node.attributes.values()
    if not isinstance(value, Tensor):
        value = torch.tensor(value, dtype=torch.int64 if _whole(value) else torch.float32)
    return lambda: value


def _whole(value: int | float | list[int] | list[float]) -> bool:
    return all(isinstance(item, int) for item in (value if isinstance(value, list) else [value]))


def _constant_of_shape(node: OperatorNode) -> Kernel:
    shape, fill = node.integers(0) or (), node.attribute("value", torch.zeros(1))
    return lambda _: fill.reshape(()).expand(shape)


def _range(node: OperatorNode) -> Kernel:
    start, limit, delta = (node.constant(at) for at in range(3))
    numbers = torch.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)
    return lambda *_: numbers


def _shape(node: OperatorNode) -> Kernel:
    """Return a kernel whose result is a constant in the host, wherever the input is."""
    sizes = torch.tensor(node.shape(0), dtype=torch.int64)[node.attribute("start", 0) : node.attribute("end", None)]
    return lambda _: sizes


def _size(node: OperatorNode) -> Kernel:
    return lambda x: torch.tensor(x.numel())


SHAPES: Final[Mapping[str, Builder]] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Range": _range,
    "Shape": _shape,
    "Size": _size,
}
