"""The time of an op: one rule, once for arrays, once for compiled loops, and once in plain Python."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_env.machine.costs import op_times
from memplace_env.machine.costs.op_time_kernels import op_time, used_by_level
from tests.references import reference_simulator
from tests.strategies import programs_with_idle_ops, tasks
from tests.strategies import two_level_accelerators as two_levels
from tests.thorough import examples


def serving(task, rng):
    """Random levels for all uses, and the sums of their times by op and level, added up one by one."""
    levels = rng.integers(0, task.accelerator.num_levels, task.program.num_uses)
    used = np.zeros((task.program.num_ops, task.accelerator.num_levels), dtype=np.int64)
    for use, level in enumerate(levels):
        used[task.program.use_op[use], level] += task.costs.use_ps[use, level]
    return levels, used


@examples(300)
@given(tasks(programs_with_idle_ops()) | tasks(programs_with_idle_ops(), two_levels()), st.integers(0, 2**32))
def test_three_tellings_of_the_rule_agree(task, seed):
    levels, used = serving(task, np.random.default_rng(seed))
    assert (used_by_level(task.program.use_ptr, levels, task.costs.use_ps) == used).all()
    times = op_times(task.costs, used)
    for op in range(task.program.num_ops):
        ports = reference_simulator.op_ports(
            task, {use: int(levels[use]) for use in reference_simulator.uses_of(task.program, op)}
        )
        whole = reference_simulator.op_time(task, op, ports)
        assert times.op_ps[op] == whole
        assert times.port_ps[op].tolist() == ports
        assert times.memory_ps[op] == (sum(ports) if task.costs.serial else max(ports))
        assert op_time(task.costs, op, used[op]) == (whole, ports[-1])
        assert op_time(task.costs, op, tuple(map(int, used[op]))) == (whole, ports[-1])


@given(tasks(), st.data())
def test_some_ops_take_what_they_take_among_all(task, data):
    _, used = serving(task, np.random.default_rng(0))
    every = op_times(task.costs, used)
    ops = np.array(data.draw(st.lists(st.integers(0, task.program.num_ops - 1), max_size=20)), dtype=np.int64)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, task.program.num_ops)] * 2)))
    for chosen in (ops, slice(first, last)):
        some = op_times(task.costs, used[chosen], chosen)
        assert all((part == whole[chosen]).all() for part, whole in zip(some, every, strict=True))
