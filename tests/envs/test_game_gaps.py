"""The gap and the end of it that a block takes: the kernels against an enumeration of all gaps."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.envs.malloc_game import room
from memplace_env.envs.malloc_game.state import BLOCKS, NEVER, OP, USE
from tests.envs.both_sides import Compiled
from tests.references.reference_compiler import Block, gaps
from tests.strategies import game_tasks
from tests.thorough import examples


def wanted(game: Compiled, block: int) -> bool:
    """Return whether the block holds data with uses left."""
    layout, state, tables = game.layout, game.state, game.tables
    owner = state[layout.tensor + block]
    intact = state[layout.block + owner] == block and state[layout.intact + owner] == 1
    return bool(intact and tables.last_use[owner] >= state[USE])


def expected(game: Compiled, size: int, ceiling: int, since: int) -> int:
    """Return the end of a gap whose neighbour is live longest, beside blocks with uses left if possible; or -1."""
    layout, state, tables = game.layout, game.state, game.tables
    blocks = range(state[BLOCKS])
    low, committed_until = state[layout.offset :], state[layout.committed_until :]
    high = [int(low[block] + tables.size[state[layout.tensor + block]]) for block in blocks]
    live_until = [
        int(tables.last_op[state[layout.tensor + b]] if wanted(game, b) else committed_until[b]) for b in blocks
    ]
    for spare in (True, False):
        busy = [b for b in blocks if committed_until[b] >= since or (spare and wanted(game, b))]
        there = [Block(0, int(low[b]), high[b] - int(low[b]), 0, 0) for b in busy]
        ends = []
        for begin, space in gaps(there, ceiling, 0, 0):
            if space >= size:
                end = begin + space
                below = [2 * NEVER] * (begin == 0) + [live_until[b] for b in busy if high[b] == begin]
                above = [2 * NEVER] * (end == ceiling) + [live_until[b] for b in busy if low[b] == end]
                ends += [(max(below), -begin), (max(above), size - end)]
        if ends:
            return -max(ends)[1]
    return -1


@examples(80)
@given(game_tasks(), st.data())
def test_blocks_go_beside_who_stays_longest(task, data):
    """In any position, below any ceiling, for any size and time."""
    game = Compiled(task)
    for _ in range(data.draw(st.integers(0, task.program.num_uses - 1))):
        game.play(data.draw(st.sampled_from(game.legal())))
    capacity, op = game.tables.capacity, int(game.state[OP])
    ceiling = data.draw(st.integers(1, capacity))
    since, size = data.draw(st.integers(0, op)), data.draw(st.integers(1, capacity))
    state = game.state.copy()
    assert room.fit(game.layout, state, size, ceiling, since, 0) == expected(game, size, ceiling, since)
    assert np.array_equal(state, game.state)
    if since >= op - 1:
        found = room.has_room(game.layout, state, size, ceiling, since, 0)
        assert found == (expected(game, size, ceiling, since) >= 0)
