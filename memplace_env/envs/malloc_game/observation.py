"""The observation of the game: its specification, and the parts that never change during a game."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env.envs.malloc_game.state import NEVER, Tables
from memplace_env.program.program import Program, TensorKind

BINS: Final = 64
"""Number of address bins of the profile, and of its ops."""
AHEAD: Final = 32
"""Number of decisions in the lookahead."""

TENSOR: Final = (
    "size", "log_size", "is_weight", "is_input", "is_activation", "is_output", "is_result", "intact", "pending",
    "backed", "uses_left", "next_use", "copy_cost", "saves", "window", "offset",
    "wait",
)  # fmt: skip
"""Columns of `tensor`, see `dict_space`."""
SIZE, LOG_SIZE, FIRST_KIND = 0, 1, 2
IS_RESULT, INTACT, PENDING, BACKED, USES_LEFT, NEXT_USE, COPY_COST, SAVES, WINDOW_AHEAD, NEW_OFFSET, WAIT = range(6, 17)

LOOKAHEAD: Final = (
    "exists", "size", "log_size", "is_weight", "is_result", "is_output", "last_use", "distance", "backing_share",
    "compute_share", "intact", "backed",
)  # fmt: skip
"""Columns of `lookahead`, see `dict_space`."""
AHEAD_SIZE, AHEAD_LOG_SIZE, AHEAD_IS_RESULT, AHEAD_DISTANCE, AHEAD_INTACT, AHEAD_BACKED = 1, 2, 4, 7, 10, 11
STATIC: Final = AHEAD_INTACT
"""Number of columns, the first ones, that never change during a game."""

PROGRESS: Final = ("decided", "estimate", "final", "waits", "pending", "owed")
"""Columns of `progress`, see `dict_space`."""

_ARRAYS: dict[str, tuple[tuple[int, ...], type[np.generic]]] = {
    "profile": ((2, BINS, BINS), np.uint8),
    "bandwidth": ((BINS,), np.float32),
    "tensor": ((len(TENSOR),), np.float32),
    "lookahead": ((AHEAD, len(LOOKAHEAD)), np.float32),
    "progress": ((len(PROGRESS),), np.float32),
    "action_mask": ((3,), np.int8),
}


class Observations(NamedTuple):
    """The observation's arrays for B states; keys and meaning as in `dict_space`."""

    profile: NDArray[np.uint8]
    bandwidth: NDArray[np.float32]
    tensor: NDArray[np.float32]
    lookahead: NDArray[np.float32]
    progress: NDArray[np.float32]
    action_mask: NDArray[np.int8]

    def of(self, index: int) -> dict[str, NDArray[Any]]:
        """Return the observation of one state."""
        arrays: list[NDArray[Any]] = list(self)
        return {key: array[index] for key, array in zip(self._fields, arrays, strict=True)}


class Unchanging(NamedTuple):
    """Parts of observations that never change during a game.

    Attributes:
        features: float32[U + 32, 10], columns `LOOKAHEAD` before "intact", but "distance" holds the op's number; zeros
            past the last use.
        following: int64[U, 2], the op of the tensor's next use (NEVER if none) and how many uses follow.
        kind: int8[K], values of `TensorKind`.
    """

    features: NDArray[np.float32]
    following: NDArray[np.int64]
    kind: NDArray[np.int8]


def dict_space() -> spaces.Dict:
    """Return the space of one observation. All floats lie in [0, 1]; "cut off" means at 1.

    | key           | space             | meaning                                                                      |
    |---------------|-------------------|------------------------------------------------------------------------------|
    | `profile`     | uint8 (2, 64, 64) | fraction of each address bin that blocks take during each op, 255: full      |
    | `bandwidth`   | float32 (64,)     | backing port time that copies may still use during the same ops              |
    | `tensor`      | float32 (17,)     | the tensor that the decision is about                                        |
    | `lookahead`   | float32 (32, 12)  | the decisions from the current one on                                        |
    | `progress`    | float32 (6,)      | progress of the game, waits and pending write-backs                          |
    | `action_mask` | int8 (3,)         | 1 for legal Copy, NoCopy, Drop; zeros once the game is over                  |

    `profile`: channel, address bin (low addresses first), op (the last 64, the current one last). Channel 0: all
    blocks; channel 1: blocks that were protected then. Ops before the program's first are empty. `bandwidth` is a
    fraction of the op's time with everything in the backing memory, and 0 for the current op; the time that pending
    write-backs will take is still in it, as a copy may come first.

    Times without a scale of their own are shown as t / (t + mean op time), the mean with everything in the backing
    memory.

    | column of `tensor` | meaning                                                                                  |
    |--------------------|------------------------------------------------------------------------------------------|
    | 0 `size`           | bytes over the fast level's capacity, cut off                                            |
    | 1 `log_size`       | log2(1 + bytes) / 40                                                                     |
    | 2 `is_weight`      | 1 for a weight                                                                           |
    | 3 `is_input`       | 1 for a graph input                                                                      |
    | 4 `is_activation`  | 1 for an inner result                                                                    |
    | 5 `is_output`      | 1 for a graph output                                                                     |
    | 6 `is_result`      | 1 if the decision is about making it                                                     |
    | 7 `intact`         | 1 if a block in fast memory holds its data                                               |
    | 8 `pending`        | 1 if a write-back is under way                                                           |
    | 9 `backed`         | 1 if the backing memory holds its data                                                   |
    | 10 `uses_left`     | uses after this one over 8, cut off                                                      |
    | 11 `next_use`      | ops to the next use over 64, cut off; 1 if there is none                                 |
    | 12 `copy_cost`     | time of a copy                                                                           |
    | 13 `saves`         | fraction of the op's time with all in the backing memory that a fast use would save      |
    | 14 `window`        | ops that the copy would start ahead over 64; 0 if no block would be placed               |
    | 15 `offset`        | offset of the new block over capacity; 0 if no block would be placed                     |
    | 16 `wait`          | time that the op would wait for the new block; if none would be placed, for Drop         |

    | column of `lookahead` | meaning                                                                               |
    |-----------------------|---------------------------------------------------------------------------------------|
    | 0 `exists`            | 1 if there is such a decision                                                         |
    | 1 `size`              | as above                                                                              |
    | 2 `log_size`          | as above                                                                              |
    | 3 `is_weight`         | 1 if it is about a weight                                                             |
    | 4 `is_result`         | 1 if it is about making a tensor                                                      |
    | 5 `is_output`         | 1 if it is about a graph output                                                       |
    | 6 `last_use`          | 1 if nothing uses the tensor later                                                    |
    | 7 `distance`          | ops from the current one over 64, cut off                                             |
    | 8 `backing_share`     | fraction of the op's time with everything in the backing memory that the use takes    |
    | 9 `compute_share`     | fraction of that time that compute takes                                              |
    | 10 `intact`           | as above                                                                              |
    | 11 `backed`           | as above                                                                              |

    | column of `progress` | meaning                                                                                |
    |----------------------|----------------------------------------------------------------------------------------|
    | 0 `decided`          | fraction of decisions made                                                             |
    | 1 `estimate`         | estimated latency over that with everything in the backing memory                      |
    | 2 `final`            | fraction of ops that are final                                                         |
    | 3 `waits`            | fraction of the estimated latency in which ops wait                                    |
    | 4 `pending`          | write-backs under way over 8, cut off                                                  |
    | 5 `owed`             | wait if these had to end before the current op                                         |
    """
    return spaces.Dict(
        {key: spaces.Box(0, 255 if dtype is np.uint8 else 1, shape, dtype) for key, (shape, dtype) in _ARRAYS.items()}
    )


def empty_observations(count: int) -> Observations:
    """Return uninitialised arrays for `count` states."""
    arrays: list[NDArray[Any]] = [np.empty((count, *shape), dtype) for shape, dtype in _ARRAYS.values()]
    return Observations(*arrays)


def unchanging(program: Program, tables: Tables) -> Unchanging:
    """Return the parts of observations that never change during a game of a program."""
    tensor, op = tables.use_tensor, tables.use_op
    size = program.tensor_bytes[tensor].astype(np.float64)
    whole = np.maximum(np.diff(-tables.rest_ps), 1)[op]
    columns = [
        np.ones(program.num_uses),
        np.minimum(size / tables.capacity, 1),
        np.log2(1 + size) / 40,
        program.tensor_kind[tensor] == TensorKind.WEIGHT,
        tables.use_is_result,
        tables.is_output[tensor],
        tables.last_use[tensor] == np.arange(program.num_uses),
        op,
        tables.costs.use_ps[:, 1] / whole,
        tables.costs.compute_ps[op] / whole,
    ]
    features = np.stack(columns, axis=1).astype(np.float32)
    padding = np.zeros((AHEAD, STATIC), np.float32)
    kind = program.tensor_kind.astype(np.int8)
    return Unchanging(np.concatenate([features, padding]), _following(tables), kind)


def _following(tables: Tables) -> NDArray[np.int64]:
    """Return `Unchanging.following`."""
    following = np.full((len(tables.use_op), 2), 0)
    op_of_next = np.full(len(tables.size), NEVER)
    count = np.zeros(len(tables.size), dtype=np.int64)
    for use in range(len(tables.use_op) - 1, -1, -1):
        tensor = tables.use_tensor[use]
        following[use] = op_of_next[tensor], count[tensor]
        op_of_next[tensor] = tables.use_op[use]
        count[tensor] += 1
    return following
