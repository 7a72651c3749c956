"""Search with any model, in many games side by side.

Each simulation has the four parts of Monte Carlo tree search. It selects an action in every game, evaluates them all
in one call of the model, adds a node to each tree, and backs the returns up to the roots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from memplace_agents.muzero.gumbel import Gumbel
from memplace_agents.muzero.gumbel_kernels import recommend, select
from memplace_agents.muzero.search_types import (
    ROOT_INDEX,
    Bools,
    RecurrentOutput,
    RootOutput,
    SearchModel,
    SearchResult,
)
from memplace_agents.muzero.tree import bool_array, float_array, instantiate_tree_from_root
from memplace_agents.muzero.tree_kernels import ALL_FINITE, expand_and_backup
from memplace_env._lib.errors import AgentError


def search(
    model: SearchModel,
    root: RootOutput,
    legal: Bools,
    *,
    num_simulations: int,
    rng: np.random.Generator,
    settings: Gumbel,
    discount: float = 1.0,
) -> SearchResult:
    """Search `B` games side by side by Gumbel MuZero; one call of the model for each simulation.

    Args:
        model: keeps the states of the roots at `ROOT_INDEX`, and has room for `num_simulations` more.
        root: its output for them.
        legal: bool[B, A], legal actions at the roots; games without any are over.
        num_simulations: for each game.
        rng: generator of all randomness.
        settings: settings of the search.
        discount: discount of a step.

    Raises:
        AgentError: if shapes do not fit, an option is out of range, or the model gives a number that is not finite.
    """
    if num_simulations < 1:
        raise AgentError(f"num_simulations must be at least 1, not {num_simulations}.")
    batch_size, num_actions = _require_root_shapes(root, legal)
    tree = instantiate_tree_from_root(root, legal, num_simulations)
    gumbel = settings.sample_noise(rng, batch_size, num_actions)  # float64[B, A]
    considered_visits = settings.considered_visits(tree, num_simulations)  # int64[n, B]
    constants = settings.c_visit, settings.c_scale, settings.normalise
    parents, actions = np.zeros((2, batch_size), dtype=np.int64)  # of the edges to expand, filled by each selection
    all_legal = np.ones((batch_size, num_actions), dtype=np.bool_)
    shapes = ((batch_size,), (batch_size,), all_legal.shape, all_legal.shape)
    for simulation in range(num_simulations):
        select(tree, gumbel, considered_visits[simulation], *constants, parents, actions)
        new_node = simulation + 1
        rewards, values, prior_logits, new_legal = model.evaluate(parents, actions, new_node)
        arrays = (
            float_array(rewards),
            float_array(values),
            float_array(prior_logits),
            all_legal if new_legal is None else bool_array(new_legal),
        )
        _require_shapes(arrays, shapes)
        bad_game = expand_and_backup(tree, new_node, parents, actions, *arrays, discount)
        if bad_game != ALL_FINITE:
            raise AgentError(
                f"The model's output for action {actions[bad_game]} in game {bad_game} of the batch is not finite in "
                f"simulation {new_node}; look for weights that diverged."
            )
    action_weights = np.empty((batch_size, num_actions))
    recommend(tree, gumbel, *constants, actions, action_weights)
    visit_counts = tree.children_visits[:, ROOT_INDEX].astype(np.int64)
    values = tree.root_values.astype(np.float32)
    qvalues = tree.children_qvalues[:, ROOT_INDEX].copy()
    return SearchResult(actions, action_weights.astype(np.float32), values, visit_counts, qvalues)


def _require_root_shapes(root: RootOutput, legal: Bools) -> tuple[int, int]:
    """Return B and A.

    Raises:
        AgentError: if the roots' arrays disagree on them.
    """
    if legal.ndim != 2 or legal.shape[1] < 1 or legal.dtype != np.bool_:
        raise AgentError(f"legal is {legal.dtype}{list(legal.shape)}; pass bool[games, actions].")
    for name, array, shape in zip(root._fields, root, (legal.shape[:1], legal.shape), strict=True):
        if array.shape != shape:
            raise AgentError(f"The roots' {name} have shape {array.shape}; {shape} fits the legal actions.")
    return legal.shape[0], legal.shape[1]


def _require_shapes(arrays: tuple[NDArray[Any], ...], shapes: tuple[tuple[int, ...], ...]) -> None:
    """Check the shapes of a model's output: the kernels would read past the end of arrays that are too small.

    Raises:
        AgentError: if an array has another shape.
    """
    if tuple([array.shape for array in arrays]) == shapes:
        return
    for name, array, shape in zip(RecurrentOutput._fields, arrays, shapes, strict=True):
        if array.shape != shape:
            raise AgentError(f"The model's {name} have shape {array.shape}; {shape} fits the games.")
