"""The smallest arena: as small as brute force finds, no smaller than its bound, and a plan that runs in just that."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memplace_agents.exact.smallest_arena import resized, smallest_arena
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.validation import violations
from memplace_env.testing import RandomCosts
from tests.agents.tiny_tasks import SEEDS, tiny_task
from tests.strategies import accelerators, programs, programs_with_pairs, tasks
from tests.thorough import examples


def least_by_brute_force(task):
    """The fewest bytes over all choices of results in place, and all orders in which blocks drop to the lowest gap."""
    program, reserved = task.program, task.costs.reserved_bytes[:, 0]
    inner = np.flatnonzero(program.is_placeable & (program.producer >= 0)).tolist()
    pairs = [pair for pair in program.handovers.tolist() if pair[0] in inner and pair[1] in inner]
    best = np.inf
    for chosen in product((False, True), repeat=len(pairs)):
        taken = [pair for pair, own in zip(pairs, chosen, strict=True) if own]
        givers, takers = [pair[0] for pair in taken], [pair[1] for pair in taken]
        if len(set(givers)) < len(taken) or len(set(takers)) < len(taken):
            continue
        head = {tensor: tensor for tensor in inner}
        for giver, taker, _ in sorted(taken, key=lambda pair: pair[2]):
            head[taker] = head[giver]
        end = {}
        for tensor in inner:
            end[head[tensor]] = max(end.get(head[tensor], 0), int(program.live_end[tensor]))
        for order in permutations(end):
            placed, top = [], int(reserved.max())
            for block in order:
                size, first, last = int(program.tensor_bytes[block]), int(program.live_start[block]), end[block]
                near = sorted((low, high) for low, high, begin, until in placed if begin <= last and until >= first)
                at = 0
                for low, high in near:
                    if at + size <= low:
                        break
                    at = max(at, high)
                placed.append((at, at + size, first, last))
                top = max(top, at + size + int(reserved[first : last + 1].max()))
            best = min(best, top)
    return best


def check(task):
    arena = smallest_arena(task)
    assert arena.live <= arena.bound <= arena.size <= min(arena.by_size, arena.first_fit)
    assert violations(arena.task, arena.plan) == []
    tops = arena.plan.allocations[:, 2] + task.program.tensor_bytes[arena.plan.allocations[:, 0]]
    assert tops.max(initial=0) <= arena.size
    exact = resized(task, arena.size)
    assert violations(exact, replace(arena.plan, accelerator_sha256=exact.accelerator.sha256)) == []
    if arena.size > task.costs.reserved_bytes[:, 0].max():
        less = resized(task, arena.size - 1)
        assert violations(less, replace(arena.plan, accelerator_sha256=less.accelerator.sha256))
    return arena


@examples(200)
@given(SEEDS)
def test_it_is_the_smallest_beside_what_ops_keep(seed):
    task = tiny_task(seed, 6, 3)
    arena = check(task)
    assert arena.proven
    assert arena.size == least_by_brute_force(task)


@examples(200)
@given(st.builds(make_task, programs_with_pairs(programs(5)), accelerators(), costs=st.builds(RandomCosts, SEEDS)))
def test_it_is_the_smallest_with_results_in_place(task):
    arena, least = check(task), least_by_brute_force(task)
    assert arena.bound <= least <= arena.size


@examples(60)
@given(tasks(programs() | programs_with_pairs()))
def test_its_plan_runs_in_a_memory_of_its_size(task):
    check(task)


def test_it_does_not_fit_the_chip_or_is_for_the_chip():
    small, large = (smallest_arena(resolve_task("MobileNetV2", chip, batch=1)) for chip in ("ethos-u65", "nnp-i"))
    assert small.task.accelerator.levels[0].capacity_bytes == small.size > 393_216
    assert small.plan.settings["accelerator"] == small.plan.accelerator == f"ethos-u65-{small.size}"
    assert large.task.accelerator.name == "nnp-i"
    assert (large.size, large.first_fit) == (1_505_280, 1_705_984)
