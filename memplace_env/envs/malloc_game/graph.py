"""Nodes of graph observations in the game: columns about the decision and about fast memory."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.envs.malloc_game.state import BLOCKS, OP, USE
from memplace_env.envs.one_shot.graph import shares_by_op
from memplace_env.program.program import Ints

STATE_COLUMNS: Final = (
    "asked", "log_size", "maker", "reader", "final", "held", "operands_fast", "results_fast", "results_backed",
)  # fmt: skip
"""Columns behind `TASK_COLUMNS`. The first four are about the tensor of the decision, and 0 once the game is over.

| column             | meaning                                                                              |
|--------------------|--------------------------------------------------------------------------------------|
| 23 `asked`         | 1 for the op of the decision                                                         |
| 24 `log_size`      | there, log2(1 + bytes of the tensor) / 40                                            |
| 25 `maker`         | 1 for the op that makes the tensor; that is the asked one where a result is decided  |
| 26 `reader`        | 1 for ops that read it later                                                         |
| 27 `final`         | 1 for ops of which all is decided                                                    |
| 28 `held`          | bytes over capacity that fast memory is known to need for blocks in the op, cut off  |
| 29 `operands_fast` | part of the bytes of weights and inputs it is first to read that fast memory has now |
| 30 `results_fast`  | part of the bytes of its results that fast memory has now                            |
| 31 `results_backed`| part of them that the backing memory has now                                         |
"""


def state_columns(problem: MallocGameProblem, state: Ints) -> NDArray[np.float64]:
    """Return float64[T, 9], the columns `STATE_COLUMNS` of a state int64[size]."""
    program, tables, layout = problem.program, problem.tables, problem.layout
    ops, tensors, use, now = program.num_ops, program.num_tensors, state[USE], state[OP]
    columns = np.zeros((ops, len(STATE_COLUMNS)))
    asked, log_size, maker, reader, final, held = columns.T[:6]
    if use < program.num_uses:
        tensor = tables.use_tensor[use]
        asked[now], log_size[now] = 1, np.log2(1.0 + tables.size[tensor]) / 40
        maker[np.arange(ops) == program.producer[tensor]] = 1
        reader[tables.use_op[use + 1 :][tables.use_tensor[use + 1 :] == tensor]] = 1
    final[:now], held[:] = 1, _held_bytes(problem, state) / max(tables.capacity, 1)
    fast = (state[layout.block :][:tensors] >= 0) & (state[layout.intact :][:tensors] == 1)
    columns[:, 6:8] = shares_by_op(problem.task, fast)
    columns[:, 8] = shares_by_op(problem.task, state[layout.valid_from :][:tensors] <= now)[:, 1]
    return columns


def _held_bytes(problem: MallocGameProblem, state: Ints) -> Ints:
    """Return int64[T], bytes of the blocks that each op needs; results in an operand's place count for themselves.

    A block whose end depends on later decisions is shown up to the present op.
    """
    layout, ops, count = problem.layout, problem.program.num_ops, state[BLOCKS]
    sections = layout.tensor, layout.start, layout.committed_until
    tensor, start, until = (state[section:][:count] for section in sections)
    until = np.where(until < ops, until, np.minimum(state[OP], ops - 1))
    change = np.zeros(ops + 1, dtype=np.int64)
    np.add.at(change, start, problem.tables.size[tensor])
    np.add.at(change, np.maximum(until + 1, start), -problem.tables.size[tensor])
    return np.cumsum(change)[:-1]
