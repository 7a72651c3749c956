"""Read the tensors of a checkpoint: of the type, shape and range with which they were written, or ValueError."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from torch import Tensor


def numbers(value: Any, dtype: DTypeLike, shape: tuple[int | None, ...], finite: bool = True) -> NDArray[Any]:
    """Return the numbers of a tensor of that type and shape, in which None is any size."""
    if not isinstance(value, Tensor):
        raise ValueError("no tensor")
    array: NDArray[Any] = value.numpy()
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, size) for wanted, size in zip(shape, array.shape, strict=True)
    )
    if array.dtype != dtype or not fits:
        raise ValueError(f"no {np.dtype(dtype)} of shape {shape}")
    if np.isnan(array).any() or (finite and not np.isfinite(array).all()):
        raise ValueError("not finite")
    return array


def like(value: Any, other: NDArray[Any]) -> NDArray[Any]:
    """Return the finite numbers of a tensor of the other array's type and shape."""
    return numbers(value, other.dtype, other.shape)


def below(array: NDArray[Any], limit: int) -> NDArray[Any]:
    """Return the array if all its numbers are in 0..limit - 1."""
    if array.size and not (array.min() >= 0 and array.max() < limit):
        raise ValueError(f"not from 0 to {limit - 1}")
    return array


def optimiser_state(optimiser: torch.optim.Optimizer) -> list[dict[str, Tensor]]:
    """Return the memory of an optimiser for each of its parameters, without its settings."""
    return [dict(optimiser.state.get(parameter, {})) for parameter in _parameters(optimiser)]


def load_optimiser(optimiser: torch.optim.Optimizer, saved: Any) -> None:
    """Return an optimiser, Adam or a relative of it, to a state that `optimiser_state` gave."""
    for parameter, state in zip(_parameters(optimiser), saved, strict=True):
        if not state:
            continue
        if state.keys() != {"step", "exp_avg", "exp_avg_sq"}:
            raise ValueError("no state of Adam")
        step = numbers(state["step"], np.float32, ())
        mean, square = (like(state[name], parameter.detach().numpy()) for name in ("exp_avg", "exp_avg_sq"))
        if step < 1 or (square < 0).any():
            raise ValueError("no state of Adam")
        optimiser.state[parameter] = {
            "step": torch.from_numpy(step),
            "exp_avg": torch.from_numpy(mean),
            "exp_avg_sq": torch.from_numpy(square),
        }


def _parameters(optimiser: torch.optim.Optimizer) -> list[Tensor]:
    return [parameter for group in optimiser.param_groups for parameter in group["params"]]
