"""Planning with any model: the loop that all searches of many games share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from agents.muzero.gumbel import Gumbel
from agents.muzero.puct import Puct
from agents.muzero.tree import Floats, bool_array, float_array, grow, plant
from memplace_env.errors import AgentError
from memplace_env.workload.program import Ints

METHODS: dict[str, Gumbel | Puct] = {"gumbel": Gumbel(), "puct": Puct()}
"""The searches by name, with their default settings."""


class Root(NamedTuple):
    """What a model says of the states that a search begins with: value float[B], policy logits float[B, A]."""

    value: NDArray[Any]
    logits: NDArray[Any]


class Step(NamedTuple):
    """What a model says of one more action in each of B games.

    Attributes:
        reward: float[B], for the action.
        value: float[B], of the state it leads to; does not count where the game is over.
        logits: float[B, A], of the policy there; those of illegal actions do not matter.
        legal: bool[B, A], the legal actions there, where none is legal the game is over; None for a model that does
            not know: all are, and no game ends.
    """

    reward: NDArray[Any]
    value: NDArray[Any]
    logits: NDArray[Any]
    legal: NDArray[np.bool_] | None = None


class Model(Protocol):
    """Plays in states that it keeps itself, in numbered slots for each game; slot 0 holds the search's first states.

    A learned model keeps latent states, say one tensor [B, simulations + 1, D], gathers those of the parents, and
    calls its network once; a simulator keeps rows of the game, say int64[B, simulations + 1, size].
    """

    def step(self, parents: Ints, actions: Ints, slot: int) -> Step:
        """Play an action in each game, and keep the new states.

        Args:
            parents: int64[B], the slot of each game that holds the state to play in; below `slot`.
            actions: int64[B], legal there; 0 in games that were over when the search began, for which the answer
                does not matter. Both arrays are filled anew for the next call.
            slot: 1..simulations, where to keep the new states of all games.
        """
        ...


class SearchResult(NamedTuple):
    """What planning found for B games.

    Attributes:
        action: int64[B], the action to play; -1 in games that were over.
        policy: float32[B, A], the target for the policy; 0 for illegal actions, all 0 in games that were over.
        value: float32[B], mean return of the simulations, the model's value of the root counted as one of them; 0 in
            games that were over.
        visits: int64[B, A], simulations through each action of the root.
    """

    action: Ints
    policy: NDArray[np.float32]
    value: NDArray[np.float32]
    visits: Ints


def search(
    model: Model,
    root: Root,
    legal: NDArray[np.bool_],
    *,
    simulations: int,
    rng: np.random.Generator | Sequence[np.random.Generator],
    method: Literal["gumbel", "puct"] | Gumbel | Puct = "gumbel",
    discount: float = 1.0,
) -> SearchResult:
    """Plan in B games side by side; one call of the model for each simulation.

    Args:
        model: keeps the states of the roots in slot 0.
        root: what it says of them.
        legal: bool[B, A], legal actions at the roots; games without any are over.
        simulations: for each game.
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
    if simulations < 1:
        raise AgentError(f"A search of {simulations} simulations leaves nothing to do; pass at least 1.")
    games, options = _shape(root, legal)
    tree = plant(root.value, root.logits, legal, simulations + 1)
    plan = settings.begin(tree, _noise(settings, rng, games, options), simulations)
    parents, actions = np.zeros((2, games), dtype=np.int64)
    all_legal = np.ones((games, options), dtype=np.bool_)
    for simulation in range(simulations):
        plan.select(simulation, parents, actions)
        step = model.step(parents, actions, simulation + 1)
        known = all_legal if step.legal is None else bool_array(step.legal)
        told = float_array(step.reward), float_array(step.value), float_array(step.logits), known
        _require_shapes(told, games, options)
        bad = grow(tree, simulation + 1, parents, actions, *told, discount)
        if bad >= 0:
            raise AgentError(
                f"The model's answer to action {actions[bad]} in game {bad} of the batch is not finite in simulation "
                f"{simulation + 1}; look for weights that diverged."
            )
    action, policy = plan.decide()
    return SearchResult(action, policy, tree.root_value.astype(np.float32), tree.visits[:, 0].astype(np.int64))


def _noise(
    settings: Gumbel | Puct, rng: np.random.Generator | Sequence[np.random.Generator], games: int, options: int
) -> Floats:
    if isinstance(rng, np.random.Generator):
        return settings.draw(rng, games, options)
    if len(rng) != games:
        raise AgentError(f"There are {len(rng)} generators for {games} games; pass one for each, or one for all.")
    return np.concatenate([settings.draw(own, 1, options) for own in rng])


def _shape(root: Root, legal: NDArray[np.bool_]) -> tuple[int, int]:
    """B and A.

    Raises:
        AgentError: if the roots' arrays disagree on them.
    """
    if legal.ndim != 2 or legal.shape[1] < 1 or legal.dtype != np.bool_:
        raise AgentError(f"legal is {legal.dtype}{list(legal.shape)}; pass bool[games, actions].")
    for name, array, shape in (("value", root.value, legal.shape[:1]), ("logits", root.logits, legal.shape)):
        if array.shape != shape:
            raise AgentError(f"The roots' {name} has shape {array.shape}; {shape} fits the legal actions.")
    return legal.shape[0], legal.shape[1]


def _require_shapes(told: tuple[NDArray[Any], ...], games: int, options: int) -> None:
    """The kernel would read past the end of arrays that are too small."""
    wanted = (games,), (games,), (games, options), (games, options)
    if tuple(array.shape for array in told) != wanted:
        for name, array, shape in zip(Step._fields, told, wanted, strict=True):
            if array.shape != shape:
                raise AgentError(f"The model's {name} has shape {array.shape}; {shape} fits the games.")
