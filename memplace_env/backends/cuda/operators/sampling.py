"""Operators that sample images between their elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from torch.nn import functional

from memplace_env.backends.cuda.operators.indexing import selection
from memplace_env.backends.cuda.operators.node import Builder, Kernel, OperatorNode

_LINEAR: Final = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _grid_sample(node: OperatorNode) -> Kernel:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(given := node.attribute("mode", "bilinear"), given)
    padding, corners = node.attribute("padding_mode", "zeros"), bool(node.attribute("align_corners", 0))
    return lambda x, grid: functional.grid_sample(x, grid, mode, padding, corners)


def _resize(node: OperatorNode) -> Kernel:
    scales, sizes = _scales_and_sizes(node)
    mode = node.attribute("mode", "nearest")
    way = node.attribute("coordinate_transformation_mode", "half_pixel" if node.opset > 10 else "asymmetric")
    if tuple(sizes) == node.shape(0) and set(scales) == {1}:
        return lambda x, *_: x
    return _nearest(node, way, scales, sizes) if mode == "nearest" else _smooth(node, mode, way, scales, sizes)


def _scales_and_sizes(node: OperatorNode) -> tuple[list[float], list[int]]:
    """Return scales and sizes by axis."""
    old = node.shape(0)
    policy = node.attribute("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        raise node.error(f"keep_aspect_ratio_policy = {policy!r} is not supported")
    axes = [axis % len(old) for axis in node.attribute("axes", range(len(old)))]
    scales, sizes = [1.0] * len(old), list(old)
    at = 1 if node.opset < 11 else 2
    if node.has(at) and node.constant(at).numel():
        for axis, scale in zip(axes, node.constant(at).tolist(), strict=True):
            scales[axis], sizes[axis] = scale, int(np.float32(scale) * np.float32(old[axis]))
    else:
        for axis, size in zip(axes, node.integers(3) or (), strict=True):
            scales[axis], sizes[axis] = size / old[axis], size
    return scales, sizes


def _nearest(node: OperatorNode, way: str, scales: list[float], sizes: list[int]) -> Kernel:
    """Return a kernel for mode nearest: the nearest elements are known before the network runs."""
    rounding = node.attribute("nearest_mode", "round_prefer_floor" if node.opset > 10 else "floor")
    old = node.shape(0)
    if node.opset < 11 and min(scales) < 1:
        raise node.error("versions before 11 do not say which element of more than one is the nearest")
    if way == "asymmetric" and rounding == "floor" and _spatial(old, scales):
        return _interpolation(node, "nearest", scales, sizes)
    chosen = {}
    for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
        if size != old[axis] or scale != 1:
            indices = _rounded(_positions(node, way, old[axis], size, scale), rounding)
            chosen[axis] = indices.clip(0, old[axis] - 1)
    return selection(node, chosen)


def _positions(node: OperatorNode, way: str, old: int, new: int, scale: float) -> NDArray[Any]:
    """Return the position in the input of each element of the result."""
    at = np.arange(new, dtype=np.float32)
    if way == "asymmetric":
        return at / np.float32(scale)
    if way == "half_pixel" or (way == "pytorch_half_pixel" and new > 1):
        return (at + np.float32(0.5)) / np.float32(scale) - np.float32(0.5)
    if way == "pytorch_half_pixel":
        return np.zeros_like(at)
    if way == "align_corners":
        return np.linspace(0, old - 1, new, dtype=np.float32)
    raise node.error(f"coordinate_transformation_mode = {way!r} is not supported")


def _rounded(at: NDArray[Any], rounding: str) -> NDArray[Any]:
    half = np.float32(0.5)
    ways: dict[str, NDArray[Any]] = {
        "floor": np.floor(at),
        "ceil": np.ceil(at),
        "round_prefer_ceil": np.floor(at + half),
        "round_prefer_floor": np.ceil(at - half),
    }
    return ways[rounding]


def _smooth(node: OperatorNode, mode: str, way: str, scales: list[float], sizes: list[int]) -> Kernel:
    """Return a kernel for linear and cubic modes, as far as PyTorch supports them."""
    old = node.shape(0)
    rank = len(old) - 2
    name = _LINEAR.get(rank) if mode == "linear" else "bicubic"
    if name is None or (name == "bicubic" and rank != 2) or not _spatial(old, scales):
        raise node.error(f"PyTorch resizes the last 1 to 3 of 3 to 5 axes, not those of {list(old)}")
    if way == "pytorch_half_pixel" and min(sizes[2:]) > 1:
        way = "half_pixel"
    if way not in ("half_pixel", "align_corners"):
        raise node.error(f"PyTorch has no coordinate_transformation_mode = {way!r} for mode {mode!r}")
    if node.attribute("exclude_outside", 0) or node.attribute("antialias", 0):
        raise node.error("PyTorch has neither exclude_outside nor ONNX's kind of antialias")
    if node.attribute("cubic_coeff_a", -0.75) != -0.75:
        raise node.error("PyTorch has no other cubic_coeff_a than -0.75")
    return _interpolation(node, name, scales, sizes, align_corners=way == "align_corners")


def _interpolation(node: OperatorNode, name: str, scales: list[float], sizes: list[int], **options: Any) -> Kernel:
    exact = all(abs(size - old * scale) < 1e-4 for size, old, scale in zip(sizes, node.shape(0), scales, strict=True))
    if exact or options.get("align_corners"):  # else the result ends within an element of the input
        options["size"] = tuple(sizes[2:])
    else:
        options["scale_factor"] = tuple(scales[2:])
    return lambda x, *_: functional.interpolate(x, mode=name, **options)


def _spatial(old: tuple[int, ...], scales: list[float]) -> bool:
    return 3 <= len(old) <= 5 and scales[:2] == [1, 1]


SAMPLING: Final[Mapping[str, Builder]] = {"GridSample": _grid_sample, "Resize": _resize}
