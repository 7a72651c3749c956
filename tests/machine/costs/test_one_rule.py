"""The op-time rule stands once for arrays, once for compiled loops and once for JAX, and nowhere else."""

import ast

from tests.source import functions, modules, names_in


def adds_overhead(node: ast.AST) -> bool:
    """Return whether a node is `max(compute, ...) + overhead`, with whatever maximum."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    sides = [(node.left, node.right), (node.right, node.left)]
    return any(
        has_maximum_of_compute(one) and any("overhead" in name for name in names_in(other)) for one, other in sides
    )


def has_maximum_of_compute(tree: ast.AST) -> bool:
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(
        names_in(call.func) & {"max", "maximum", "fmax"} and any("compute" in n for n in names_in(call))
        for call in calls
    )


def test_the_op_time_rule_stands_thrice():
    """Once for arrays, once for compiled loops and once for JAX; the plain reference of both stands among the tests."""
    homes = {
        function.module: function.node.name
        for function in functions()
        if any(adds_overhead(node) for node in ast.walk(function.node))
    }
    assert homes == {
        "memplace_env.machine.costs.cost_arrays": "whole_op_ps",
        "memplace_env.machine.costs.op_time_kernels": "op_time",
        "memplace_env.envs.jax.jax_game": "_op_time",
    }


KNOW_OVERHEAD = {
    "memplace_env.placement.compiler.placing_order",  # hands it to kernels
    "memplace_env.envs.malloc_game.state",  # likewise
    "memplace_env.envs.steps.step_tables",  # likewise
    "memplace_env.envs.jax.jax_game",  # the rule in JAX
    "memplace_env.envs.jax.jax_game_observation",  # shows the player what memory can save of an op
    "memplace_env.envs.malloc_game.observation_parts",  # shows the player what memory can save of an op
    "memplace_agents.exact.dynamic.dynamic_model",  # a linear program of the rule
    "memplace_agents.exact.dynamic.times",  # its rows
    "memplace_agents.exact.static.static_model",  # a linear program of the rule
    "memplace_agents.exact.static.static_solve",  # its sum
    "memplace_agents.exact.static.static_search",  # likewise, of large programs
    "memplace_agents.exact.static.static_ties",  # bounds for its ops
    "memplace_agents.exact.order.order_model",  # likewise, over all orders
    "memplace_agents.exact.order.order_search",  # its sum
    "memplace_agents.exact.proving_search",  # adds what a program leaves out to its bound
    "memplace_agents.exact.second_opinion",  # likewise
    "memplace_agents.calibrated.cost_factors",  # multiplies it by a factor
    "memplace_env.placement.simulator.event.event_simulator",  # hands it to a kernel
    "memplace_leaderboard.black_box",  # a machine with other costs
}
"""Besides `costs` and `testing`."""


def test_no_other_module_works_with_the_overhead_of_ops():
    readers = {
        name
        for name, tree in modules().items()
        if any(isinstance(node, ast.Attribute) and node.attr == "overhead_ps" for node in ast.walk(tree))
        or any(isinstance(node, ast.keyword) and node.arg == "overhead_ps" for node in ast.walk(tree))
    }
    assert {
        name for name in readers if not name.startswith(("memplace_env.machine.costs", "memplace_env.testing"))
    } <= KNOW_OVERHEAD
