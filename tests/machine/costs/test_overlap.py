"""Uses of an op that wait beside each other."""

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from memplace_env.machine.costs.tiled.access import overlapped

use = st.tuples(st.integers(0, 3), st.integers(0, 50), st.integers(0, 50), st.booleans())


@given(st.lists(use, min_size=1, max_size=12))
def test_together_as_long_as_their_bytes_and_as_the_longest(uses: list[tuple[int, int, int, bool]]) -> None:
    op, bytes_only, waits, together = (np.array(column) for column in zip(*sorted(uses), strict=True))
    alone = bytes_only + waits
    times = overlapped(alone, bytes_only, together, op)
    assert (times[~together] == alone[~together]).all()
    assert (times >= bytes_only).all()
    for number in np.unique(op[together]):
        mine = together & (op == number)
        assert times[mine].sum() == max(bytes_only[mine].sum(), alone[mine].max())
