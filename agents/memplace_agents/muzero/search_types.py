"""Types and constants that all parts of the tree search share.

In shapes `B` denotes the batch dimension (games searched side by side), `N` the number of nodes of a tree, and `A` the
number of actions.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from memplace_env.program.program import Ints

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Ints32 = NDArray[np.int32]
Bools = NDArray[np.bool_]

ROOT_INDEX = 0
"""Number of the root in every tree."""
NO_PARENT = -1
"""Parent of the root, and of nodes that do not exist."""
UNVISITED = -1
"""Child of an action that no simulation has tried."""
NO_ACTION = -1
"""Action of a game that was over before the search."""

MIN_PRIOR = 1e-30
"""Least prior of a legal action, so that shares among visited actions are never 0 / 0; our choice."""
EPSILON = 1e-8
"""Least range by which Q-values are normalised; our choice."""


class RootOutput(NamedTuple):
    """Output of a model for the states that a search begins with.

    Attributes:
        values: float[B].
        prior_logits: float[B, A], of the policy; those of illegal actions do not matter.
    """

    values: NDArray[Any]
    prior_logits: NDArray[Any]


class RecurrentOutput(NamedTuple):
    """Output of a model for one more action in each game.

    Attributes:
        rewards: float[B], for the actions.
        values: float[B], of the states that they lead to; those of terminal states do not matter.
        prior_logits: float[B, A], of the policy there; those of illegal actions do not matter.
        legal: bool[B, A], the legal actions there; a state without any is terminal. None for a model that does not
            know them: then all are legal, and no game ends.
    """

    rewards: NDArray[Any]
    values: NDArray[Any]
    prior_logits: NDArray[Any]
    legal: Bools | None = None


class SearchModel(Protocol):
    """Evaluates actions in states that it keeps itself: one for each node, those of the roots at `ROOT_INDEX`.

    A learned model keeps latent states, say float32[B, N, D], gathers those of the parents, and calls its network
    once; a simulator keeps states of the game, say int64[B, N, size].
    """

    def evaluate(self, parents: Ints, actions: Ints, node: int) -> RecurrentOutput:
        """Play an action in each game, keep the new states, and return their values and policies.

        Args:
            parents: int64[B], the node of each game whose state the action is played in; below `node`.
            actions: int64[B], legal there; 0 in games that were over when the search began, for which the output
                does not matter. Both arrays are overwritten after the call.
            node: 1..N - 1, the node that the new states belong to, the same in all games.
        """
        ...


class SearchResult(NamedTuple):
    """Result of a search in `B` games.

    Attributes:
        actions: int64[B], to play; `NO_ACTION` in games that were over.
        action_weights: float32[B, A], the target of the policy; 0 for illegal actions, all 0 in games that were over.
        values: float32[B], mean return of the simulations, the model's value of the root counted as one of them; 0 in
            games that were over.
        visit_counts: int64[B, A], simulations through each action of the root.
        qvalues: float64[B, A], their mean return; 0 without any.
    """

    actions: Ints
    action_weights: Floats32
    values: Floats32
    visit_counts: Ints
    qvalues: Floats
