"""The one-shot observation: the op graph with EGRL's 19 features for each node."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env.envs.one_shot.problem import OneShotProblem
from memplace_env.program.program import GEOMETRY, Ints, Program, TensorKind

FEATURES = (
    "op_id", "weight_size", "ifm_x", "ifm_y", "ifm_z", "ofm_x", "ofm_y", "ofm_z", "ifm_size", "ofm_size",
    "n_ops_left", "n_w_left", "groups", "kernel_x", "kernel_y", "stride", "pad", "dilation", "batch",
)  # fmt: skip
"""Columns of the node features: the set of EGRL's appendix table, in its order."""

_BYTES_SCALE, _COUNT_SCALE = 40.0, 20.0


def dict_space(problem: OneShotProblem) -> spaces.Dict:
    """Return the space of one observation, see `OneShotEnv`."""
    ops, edges = problem.program.num_ops, problem.program.edges.shape[1]
    return spaces.Dict(
        {
            "nodes": spaces.Box(0, 1, (ops, len(FEATURES)), np.float32),
            "edge_index": spaces.Box(0, max(ops - 1, 1), (2, edges), np.int64),
            "action_mask": spaces.Box(0, 1, (problem.mask.size,), np.int8),
        }
    )


def dict_observation(problem: OneShotProblem) -> dict[str, NDArray[Any]]:
    """Return the observation, read-only: it never changes."""
    observation: dict[str, NDArray[Any]] = {
        "nodes": node_features(problem.program),
        "edge_index": problem.program.edges,
        "action_mask": problem.mask.ravel().astype(np.int8),
    }
    for value in observation.values():
        value.flags.writeable = False
    return observation


def node_features(program: Program) -> NDArray[np.float32]:
    """Return float32[T, 19] in [0, 1], columns `FEATURES`.

    EGRL does not publish its scaling; ours: byte sizes log2(1 + x) / 40, dims and counts log2(1 + x) / 20, both cut
    off at 1; `op_id` a hash of the operator's name; `n_ops_left` and `n_w_left` (bytes of weights whose first
    reader comes later) as fractions of their totals.
    """
    ops = program.num_ops
    columns = {name: _log(program.geometry[:, index], _COUNT_SCALE) for index, name in enumerate(GEOMETRY)}
    weight_bytes = owned_weight_bytes(program)
    columns["op_id"] = np.array([crc32(op_type.encode()) / 2**32 for op_type in program.op_type])
    columns["weight_size"] = _log(weight_bytes, _BYTES_SCALE)
    reads = ~program.use_is_result & (program.tensor_kind[program.use_tensor] != TensorKind.WEIGHT)
    for name, uses in (("ifm_size", reads), ("ofm_size", program.use_is_result)):
        size = np.bincount(program.use_op[uses], weights=program.tensor_bytes[program.use_tensor[uses]], minlength=ops)
        columns[name] = _log(size, _BYTES_SCALE)
    columns["n_ops_left"] = np.arange(ops - 1, -1, -1) / ops
    columns["n_w_left"] = 1 - np.cumsum(weight_bytes) / max(weight_bytes.sum(), 1)
    return np.stack([columns[name] for name in FEATURES], axis=1).astype(np.float32).clip(0, 1)


def owned_weight_bytes(program: Program) -> Ints:
    """Return int64[T], bytes of the weights that each op is the first to read."""
    weights = program.tensor_kind == TensorKind.WEIGHT
    owned = np.zeros(program.num_ops, dtype=np.int64)
    np.add.at(owned, program.live_start[weights], program.tensor_bytes[weights])
    return owned


def _log(values: NDArray[np.generic], scale: float) -> NDArray[np.float64]:
    return np.log2(1.0 + values.astype(np.float64)) / scale
