"""Best fit below a ceiling: the search of the game against all gaps, counted out."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from memplace_env.envs.malloc_game import rules
from memplace_env.envs.malloc_game.state import BLOCKS, NEVER
from memplace_env.testing.reference_compiler import Block, gaps
from memplace_env.testing.strategies import game_tasks
from tests.envs.both_sides import Compiled


def smallest(rooms: list[tuple[int, int]], size: int) -> int:
    """Offset of the smallest of these gaps that fits, the lowest of equals; -1 if none does."""
    fitting = [(room, offset) for offset, room in rooms if room >= size]
    return min(fitting)[1] if fitting else -1


@settings(max_examples=300)
@given(game_tasks(), st.data())
def test_the_games_search_finds_the_smallest_gap(task, data):
    """In any position, below any ceilings, for any size and time."""
    game = Compiled(task)
    for _ in range(data.draw(st.integers(0, task.program.num_uses - 1))):
        game.play(data.draw(st.sampled_from(game.legal())))
    capacity, ops = game.tables.capacity, task.program.num_ops
    ceiling = np.array(data.draw(st.lists(st.integers(0, capacity), min_size=ops + 1, max_size=ops + 1)))
    since, size = data.draw(st.integers(0, ops)), data.draw(st.integers(1, capacity))
    tables = game.tables._replace(ceiling=ceiling)
    found = rules._fit(tables, game.layout, game.state.copy(), size, since)
    layout, state = game.layout, game.state
    blocks = []
    for block in range(state[BLOCKS]):
        size_of_block = int(task.program.tensor_bytes[state[layout.tensor + block]])
        blocks.append(Block(0, int(state[layout.offset + block]), size_of_block, 0, int(state[layout.hold + block])))
    assert found == smallest(gaps(blocks, int(ceiling[since]), since, int(NEVER)), size)
