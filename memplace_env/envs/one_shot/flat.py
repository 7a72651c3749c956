"""The one-shot observation as one short vector, for networks that take no graphs."""

from __future__ import annotations

from typing import Final

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from memplace_env.envs.one_shot.observation import owned_weight_bytes
from memplace_env.envs.one_shot.problem import OneShotProblem
from memplace_env.machine.costs import op_times
from memplace_env.placement.task import Task
from memplace_env.program.program import TensorKind

SEGMENTS: Final = 16
"""Number of parts of the schedule, of equally many ops each; a program with fewer ops leaves some of them empty."""

Floats = NDArray[np.float64]


def flat_space(problem: OneShotProblem) -> spaces.Box:
    """Return Box(0, 1, (100 + 2L,) float32), equally long for every program on chips with L memory levels.

    Times are those with everything in the backing memory; bytes b are shown as b / (b + capacity of the fastest
    level); weights and results are those that an assignment decides about. Scales are our choice.

    | numbers                   | meaning                                                                            |
    |---------------------------|------------------------------------------------------------------------------------|
    | 0..15 `time`              | of each sixteenth of the schedule: its fraction of the time of all ops             |
    | 16..31 `compute`          | its compute time over the time of its ops                                          |
    | 32..47 `weight_traffic`   | time of its reads of weights over that of all its reads and writes                 |
    | 48..63 `weight_bytes`     | bytes of the weights that it is the first to read                                  |
    | 64..79 `result_bytes`     | bytes of the results that it makes                                                 |
    | 80..95 `live_bytes`       | most bytes of results and graph outputs alive during one of its ops                |
    | 96 `ops`                  | log2(1 + ops) / 20                                                                 |
    | 97 `all_weight_bytes`     | log2(1 + bytes of all weights) / 40                                                |
    | 98 `all_result_bytes`     | log2(1 + bytes of all results) / 40                                                |
    | 99 `all_compute`          | compute time over the time of all ops                                              |
    | 100..99+L `capacity`      | of each level, fastest first: its bytes c as c / (c + bytes of weights and results)|
    | 100+L..99+2L `traffic`    | time t of all reads and writes there as t / (t + that in the backing memory)       |
    """
    return spaces.Box(0, 1, (6 * SEGMENTS + 4 + 2 * problem.accelerator.num_levels,), np.float32)


def flat_observation(problem: OneShotProblem) -> NDArray[np.float32]:
    """Return the observation, see `flat_space`; read-only: it never changes."""
    parts = [*_segments(problem.task), _whole(problem.task), *_levels(problem.task)]
    flat = np.concatenate(parts).astype(np.float32).clip(0, 1)
    flat.flags.writeable = False
    return flat


def _segments(task: Task) -> list[Floats]:
    """Return six columns float64[16], one number for each sixteenth of the schedule."""
    program, capacity = task.program, task.accelerator.levels[0].capacity_bytes
    segment = np.arange(program.num_ops) * SEGMENTS // max(program.num_ops, 1)
    time = np.bincount(segment, weights=backing_ps_by_op(task), minlength=SEGMENTS)
    compute = np.bincount(segment, weights=task.costs.compute_ps, minlength=SEGMENTS)
    use_ps, use_segment = task.costs.use_ps[:, -1], segment[program.use_op]
    reads_weight = (program.tensor_kind == TensorKind.WEIGHT)[program.use_tensor]
    reads = np.bincount(use_segment, weights=use_ps * reads_weight, minlength=SEGMENTS)
    traffic = np.bincount(use_segment, weights=use_ps, minlength=SEGMENTS)
    weights = np.bincount(segment, weights=owned_weight_bytes(program), minlength=SEGMENTS)
    activations = program.tensor_kind == TensorKind.ACTIVATION
    results = np.bincount(
        segment[program.live_start[activations]], weights=program.tensor_bytes[activations], minlength=SEGMENTS
    )
    live = np.zeros(SEGMENTS)
    np.maximum.at(live, segment, program.live_bytes)
    ratios = [time / time.sum(), compute / np.maximum(time, 1), reads / np.maximum(traffic, 1)]
    return [*ratios, *(bytes_ / (bytes_ + capacity) for bytes_ in (weights, results, live))]


def _whole(task: Task) -> Floats:
    """Return float64[4], about the whole program."""
    program = task.program
    counts = [program.num_ops, program.bytes_of(TensorKind.WEIGHT), program.bytes_of(TensorKind.ACTIVATION)]
    logarithms = np.log2(1 + np.array(counts, dtype=np.float64)) / (20, 40, 40)
    return np.append(logarithms, task.costs.compute_ps.sum() / backing_ps_by_op(task).sum())


def _levels(task: Task) -> list[Floats]:
    """Return two columns float64[L], one number for each memory level."""
    capacity = np.array([level.capacity_bytes for level in task.accelerator.levels], dtype=np.float64)
    traffic = task.costs.use_ps.sum(axis=0, dtype=np.float64)
    placeable = task.program.tensor_bytes[task.program.is_placeable].sum()
    return [capacity / (capacity + placeable), traffic / (traffic + traffic[-1])]


def backing_ps_by_op(task: Task) -> NDArray[np.int64]:
    """Return int64[T], time of each op with everything in the backing memory, ps."""
    used = np.zeros((task.program.num_ops, task.accelerator.num_levels), dtype=np.int64)
    np.add.at(used[:, -1], task.program.use_op, task.costs.use_ps[:, -1])
    return op_times(task.costs, used).op_ps
