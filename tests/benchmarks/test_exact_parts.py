"""Parts of the exact agent that are left out: each as long as its run, and the table of what that costs."""

import pytest

from benchmarks import exact_parts, proofs
from benchmarks.exact_parts import GAMES, NOTHING, PARTS
from memplace_agents import make_agent
from memplace_agents.exact.dynamic import dynamic_run, lp_bound
from memplace_agents.exact.dynamic.dynamic_run import DynamicSearch
from memplace_env.leaderboard.suite import load_suite

HOMES = (lp_bound, dynamic_run, DynamicSearch)


def contents():
    return [*(dict(vars(home)) for home in HOMES), DynamicSearch._tree.__defaults__]


def test_games_are_registered_ones_in_the_order_of_the_rule():
    ids = [f"MallocGame-{name}-v0" for name in GAMES]
    order = [env_id for env_id in proofs.registered() if env_id in load_suite("game-v1").instances]
    assert ids == sorted(ids, key=order.index)


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_left_out_and_comes_back(part):
    before = contents()
    with PARTS[part]():
        assert (contents() == before) == (part == NOTHING)
        solution = make_agent("exact").solve("MallocGame-SqueezeNet-edge-tpu-v0", time_limit=5)
        assert solution.bound_s <= solution.report.latency_s
    assert contents() == before


def test_a_table_of_two_games():
    runs = [
        {"without": NOTHING, "id": "a", "latency_ps": 100, "bound_ps": 100},
        {"without": NOTHING, "id": "b", "latency_ps": 100, "bound_ps": 50},
        {"without": "windows", "id": "a", "latency_ps": 110, "bound_ps": 100},
        {"without": "windows", "id": "b", "latency_ps": 100, "bound_ps": 60},
    ]
    _, _, whole, without = exact_parts.table(runs).splitlines()
    assert whole == "| nothing | 100.0% |  |  |  |  |"
    assert without == "| windows | 76.7% | +4.88% | 1 : 0 | -8.71% | 0 : 1 |"
