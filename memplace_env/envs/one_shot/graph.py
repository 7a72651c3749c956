"""Op graphs as Gymnasium's own type, for networks that read graphs: `observation="graph"` of every formulation."""

from __future__ import annotations

from typing import Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env.envs.one_shot.flat import backing_ps_by_op
from memplace_env.envs.one_shot.observation import FEATURES, node_features, owned_weight_bytes
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Ints, Program

Floats = NDArray[np.float32]

TASK_COLUMNS: Final = (*FEATURES, "time", "compute", "weight_share", "result_share")
"""First columns of every node, which never change: those of EGRL's table, then the op on its chip.

Times t are shown as t / (t + mean over the ops) with everything in the backing memory, bytes b as b / (b + capacity of
the fastest level).

| column         | meaning                                                       |
|----------------|---------------------------------------------------------------|
| 0..18          | as in `observation.node_features`                             |
| 19 `time`      | time of the op                                                |
| 20 `compute`   | its compute time over its time                                |
| 21 `weight_share` | bytes of the weights that it is the first to read          |
| 22 `result_share` | bytes of its results                                       |
"""


def graph_space(columns: tuple[str, ...]) -> spaces.Graph:
    """Return the space of op graphs, the same for every program and chip.

    A node is an op, float32 in [0, 1] with these columns. An edge is int32 (producing op, consuming
    op), each pair once, with one feature in [0, 1]: log2(1 + bytes of the tensors that pass) / 40.
    """
    nodes, edges = (spaces.Box(0, 1, (length,), np.float32) for length in (len(columns), 1))
    return spaces.Graph(node_space=nodes, edge_space=edges)


def graph_of(task: Task, columns: NDArray[np.floating] | None = None) -> spaces.GraphInstance:
    """Return the op graph of a task in arrays of its own; `columns` [T, C] stand behind those of the task."""
    nodes, edges, links = _unchanging(task)
    parts = [nodes] if columns is None else [nodes, columns.astype(np.float32)]
    return spaces.GraphInstance(np.concatenate(parts, axis=1).clip(0, 1), edges.copy(), links.copy())


def shares_by_op(task: Task, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return float64[T, 2], fractions of each op's bytes that the `chosen` bool[K] tensors have; 0 of no bytes.

    The first is of the weights and inputs that the op is the first to read, the second of the results that it makes.
    """
    group, share = _owners(task)
    shares = np.zeros(2 * task.program.num_ops + 1)
    np.add.at(shares, group[chosen], share[chosen])
    return shares[:-1].reshape(-1, 2)


@derived
def _owners(task: Task) -> tuple[Ints, NDArray[np.float64]]:
    """Return int64[K], twice the op whose tensor each is, plus 1 for results, and its share of the bytes of these.

    Tensors that nothing uses come last, behind all ops.
    """
    program = task.program
    op = np.append(program.use_op, program.num_ops)[program.first_use]
    group = np.minimum(2 * op + (program.producer >= 0), 2 * program.num_ops)
    total = np.bincount(group, weights=program.tensor_bytes)
    return group, program.tensor_bytes / np.maximum(total, 1)[group]


@derived
def _unchanging(task: Task) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """Return nodes float32[T, 23], edges float32[E, 1] and links int32[E, 2]."""
    program, ops = task.program, task.program.num_ops
    time, capacity = backing_ps_by_op(task), max(task.accelerator.levels[0].capacity_bytes, 1)
    made = program.producer >= 0
    result_bytes = np.bincount(program.producer[made], weights=program.tensor_bytes[made], minlength=ops)
    sizes = [size / (size + capacity) for size in (owned_weight_bytes(program), result_bytes)]
    columns = [time / np.maximum(time + time.mean(), 1), task.costs.compute_ps / np.maximum(time, 1), *sizes]
    nodes = np.column_stack([node_features(program), *columns]).astype(np.float32)
    edges = np.log2(1 + _passed_bytes(program)[:, None]) / 40
    return nodes, edges.astype(np.float32).clip(0, 1), program.edges.T.astype(np.int32)


def _passed_bytes(program: Program) -> Ints:
    """Return int64[E], bytes of the tensors that pass along each of `program.edges`."""
    source = program.producer[program.use_tensor]
    reads = ~program.use_is_result & (source >= 0)
    # Edges are ordered by consumer, then producer.
    known = program.edges[1] * program.num_ops + program.edges[0]
    edge = np.searchsorted(known, program.use_op[reads] * program.num_ops + source[reads])
    passed = np.zeros(len(known), dtype=np.int64)
    np.add.at(passed, edge, program.tensor_bytes[program.use_tensor[reads]])
    return passed
