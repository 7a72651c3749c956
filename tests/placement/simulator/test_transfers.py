"""The deadline rule: stalls, tail, and which copy the port serves when."""

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.placement.simulator.deadline_kernel import run_transfers
from tests.references.reference_simulator import Copy, play_copies
from tests.thorough import examples

TIMES = st.integers(0, 60)


@st.composite
def traffic(draw: st.DrawFn) -> tuple[list[int], list[Copy]]:
    """Leftovers of ops at the port, and copies in any order."""
    ops = draw(st.integers(1, 12))
    leftover = draw(st.lists(TIMES, min_size=ops, max_size=ops))
    copies = []
    for _ in range(draw(st.integers(0, 10))):
        start, end = sorted((draw(st.integers(0, ops)), draw(st.integers(0, ops))))
        copies.append(Copy(start, end, draw(TIMES)))
    return leftover, copies


@examples(500)
@given(traffic())
def test_stalls_and_tail_equal_the_reference_and_every_stretch_is_legal(drawn):
    leftover, copies = drawn
    ordered = sorted(copies, key=lambda copy: (copy.end, copy.start))
    columns = [
        np.array([getattr(copy, field) for copy in ordered], dtype=np.int64) for field in ("start", "end", "left")
    ]
    stall, tail, served = run_transfers(np.array(leftover, dtype=np.int64), *columns)
    demands = [copy.left for copy in ordered]
    assert (stall.tolist(), tail) == play_copies(leftover, copies)

    done, during, waits = Counter(), Counter(), Counter()
    for number, moment, picoseconds in served.tolist():
        op, beside = divmod(moment, 2)
        copy = ordered[number]
        assert picoseconds > 0
        if beside:
            assert copy.start <= op <= copy.end
            during[op] += picoseconds
        else:
            assert op == min(copy.end + 1, len(leftover)), "the port finishes a copy as soon as it is due"
            waits[op] += picoseconds
        done[number] += picoseconds
    assert [done[number] for number in range(len(ordered))] == demands
    assert [waits[op] for op in range(len(leftover) + 1)] == [*stall, tail]
    assert all(during[op] <= left for op, left in enumerate(leftover))
    assert served[:, 1].tolist() == sorted(served[:, 1].tolist()), "in order of time"
