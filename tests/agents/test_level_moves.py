"""Levels without useless tensors, against the rule in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.exact.static.level_moves import without_useless_tensors
from memplace_env.placement.compiler.placing_order import latency_ps
from tests.strategies import tasks, tensor_levels
from tests.thorough import examples


@examples(100, deadline=None)
@given(tasks(), st.data())
def test_tensors_step_back_one_by_one_where_nothing_gets_slower(task, data):
    level = np.array(data.draw(tensor_levels(task)))
    wanted, most = level.copy(), latency_ps(task, level)
    for tensor in np.argsort(-task.program.tensor_bytes, kind="stable"):
        moved = wanted.copy()
        moved[tensor] = task.backing
        if latency_ps(task, moved) <= most:
            wanted = moved
    before = level.copy()
    assert without_useless_tensors(task, level).tolist() == wanted.tolist()
    assert level.tolist() == before.tolist()
