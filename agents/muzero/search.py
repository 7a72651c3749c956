"""Search with any model, in many games side by side.

Each simulation has the four parts of Monte Carlo tree search. It selects an action in every game, evaluates them all
in one call of the model, expands the trees by what they lead to, and backs the returns up to the roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agents.muzero.base import ROOT_INDEX, Bools, Floats, Model, RecurrentOutput, RootOutput, SearchResult
from agents.muzero.gumbel import Gumbel, GumbelSearch
from agents.muzero.puct import Puct, PuctSearch
from agents.muzero.tree import bool_array, float_array, instantiate_tree_from_root
from agents.muzero.tree_kernels import ALL_FINITE, expand_and_backup
from memplace_env.errors import AgentError

METHODS: dict[str, Gumbel | Puct] = {"gumbel": Gumbel(), "puct": Puct()}
"""The searches by name, with their default settings."""


def search(
    model: Model,
    root: RootOutput,
    legal: Bools,
    *,
    num_simulations: int,
    rng: np.random.Generator | Sequence[np.random.Generator],
    method: Literal["gumbel", "puct"] | Gumbel | Puct = "gumbel",
    discount: float = 1.0,
) -> SearchResult:
    """Search `B` games side by side; one call of the model for each simulation.

    Args:
        model: keeps the states of the roots at `ROOT_INDEX`, and has room for `num_simulations` more.
        root: what it says of them.
        legal: bool[B, A], legal actions at the roots; games without any are over.
        num_simulations: for each game.
        rng: of all randomness: one generator for all games, or one for each, so that what becomes of a game does not
            depend on the others.
        method: the search and its settings, or its name.
        discount: of a step.

    Raises:
        AgentError: if shapes do not fit, an option makes no sense, or the model gives a number that is not finite.
    """
    if isinstance(method, str) and method not in METHODS:
        raise AgentError(f"No search is called {method!r}; there are {', '.join(METHODS)}.")
    settings = METHODS[method] if isinstance(method, str) else method
    if num_simulations < 1:
        raise AgentError(f"A search of {num_simulations} simulations leaves nothing to do; pass at least 1.")
    batch_size, num_actions = _require_root_shapes(root, legal)
    tree = instantiate_tree_from_root(root, legal, num_simulations)
    noise = _sample_noise(settings, rng, batch_size, num_actions)
    policy: GumbelSearch | PuctSearch = settings.start(tree, noise, num_simulations)
    parents, actions = np.zeros((2, batch_size), dtype=np.int64)
    all_legal = np.ones((batch_size, num_actions), dtype=np.bool_)
    shapes = ((batch_size,), (batch_size,), all_legal.shape, all_legal.shape)
    for simulation in range(num_simulations):
        policy.select(simulation, parents, actions)
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
                f"The model's answer to action {actions[bad_game]} in game {bad_game} of the batch is not finite in "
                f"simulation {new_node}; look for weights that diverged."
            )
    actions, action_weights = policy.recommend()
    visit_counts = tree.children_visits[:, ROOT_INDEX].astype(np.int64)
    return SearchResult(actions, action_weights, tree.root_values.astype(np.float32), visit_counts)


def _sample_noise(
    settings: Gumbel | Puct,
    rng: np.random.Generator | Sequence[np.random.Generator],
    batch_size: int,
    num_actions: int,
) -> Floats:
    if isinstance(rng, np.random.Generator):
        return settings.sample_noise(rng, batch_size, num_actions)
    if len(rng) != batch_size:
        raise AgentError(f"There are {len(rng)} generators for {batch_size} games; pass one for each, or one for all.")
    return np.concatenate([settings.sample_noise(own, 1, num_actions) for own in rng])


def _require_root_shapes(root: RootOutput, legal: Bools) -> tuple[int, int]:
    """B and A.

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
    """The kernels would read past the end of arrays that are too small.

    Raises:
        AgentError: if an array of a model's answer has another shape.
    """
    if tuple([array.shape for array in arrays]) == shapes:
        return
    for name, array, shape in zip(RecurrentOutput._fields, arrays, shapes, strict=True):
        if array.shape != shape:
            raise AgentError(f"The model's {name} have shape {array.shape}; {shape} fits the games.")
