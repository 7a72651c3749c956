"""Gumbel MuZero: a search of few simulations that still improves the policy.

Danihelka, Guez, Schrittwieser and Silver, "Policy improvement by planning with Gumbel", ICLR 2022. At the root,
Gumbel noise samples actions without replacement, and sequential halving spends the simulations on them; elsewhere
actions follow the improved policy: softmax(logits + sigma(completed Q)), where actions without visits get the value
v_mix of the paper's appendix D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from agents.muzero import gumbel_kernels
from agents.muzero.base import ROOT_INDEX, Floats, Floats32
from agents.muzero.tree import Tree
from memplace_env.errors import AgentError
from memplace_env.threads import cached_property
from memplace_env.workload.program import Ints

NORMALISATIONS = {
    "none": gumbel_kernels.NORMALISE_NONE,
    "node": gumbel_kernels.NORMALISE_BY_NODE,
    "tree": gumbel_kernels.NORMALISE_BY_TREE,
}
"""Ways to bring Q-values into [0, 1], and what the kernels call them."""


@dataclass(frozen=True)
class Gumbel:
    """Settings of Gumbel MuZero's search; the defaults are the paper's and its authors' library's (mctx).

    Attributes:
        max_num_considered_actions: sampled at the root.
        c_visit: sigma(q) = (c_visit + most visits of an action) x c_scale x normalised q.
        c_scale: see there; the paper has 1 for board games and 0.1 for Atari.
        normalise: by which least and greatest value q becomes normalised q in [0, 1]: those of the completed Q of
            the node, those of all Q in the tree and the node's v_mix, or 0 and 1.
        noise_scale: factor on the Gumbel noise; 0 makes the search deterministic.

    Raises:
        AgentError: if a setting makes no sense.
    """

    max_num_considered_actions: int = 16
    c_visit: float = 50.0
    c_scale: float = 0.1
    normalise: Literal["none", "node", "tree"] = "node"
    noise_scale: float = 1.0

    def __post_init__(self) -> None:
        if self.max_num_considered_actions < 1:
            raise AgentError(
                f"max_num_considered_actions={self.max_num_considered_actions} leaves no action to search; "
                "pass at least 1."
            )
        for name in ("c_visit", "c_scale", "noise_scale"):
            if not 0 <= getattr(self, name) < math.inf:
                raise AgentError(f"{name}={getattr(self, name)} makes no sense; pass a finite number from 0 on.")
        if self.normalise not in NORMALISATIONS:
            raise AgentError(f"normalise={self.normalise!r} is unknown; pass one of {', '.join(NORMALISATIONS)}.")

    def sample_noise(self, rng: np.random.Generator, batch_size: int, num_actions: int) -> Floats:
        """float64[B, A], the Gumbel noise of the roots' actions."""
        return self.noise_scale * rng.gumbel(size=(batch_size, num_actions))

    def start(self, tree: Tree, noise: Floats, num_simulations: int) -> GumbelSearch:
        """A search in trees of nothing but roots, with noise from `sample_noise`."""
        num_legal = (tree.children_prior_logits[:, ROOT_INDEX] > -np.inf).sum(axis=1)
        num_considered = np.minimum(num_legal, self.max_num_considered_actions)
        table = np.array([considered_visits_sequence(num, num_simulations) for num in range(tree.num_actions + 1)])
        return GumbelSearch(self, tree, noise, np.ascontiguousarray(table[num_considered].T))


@dataclass(frozen=True)
class GumbelSearch:
    """One search of `B` games with `n` simulations.

    Attributes:
        settings: of the search.
        tree: of the games.
        gumbel: float64[B, A], the noise of the roots' actions.
        considered_visits: int64[n, B], visits that the root's action of each simulation has before it.
    """

    settings: Gumbel
    tree: Tree
    gumbel: Floats
    considered_visits: Ints

    def select(self, simulation: int, parents: Ints, actions: Ints) -> None:
        """Descend from every root to the action to expand.

        Args:
            simulation: 0..n - 1.
            parents, actions: int64[B], filled with the nodes reached and the actions to play there; both 0 where the
                root is terminal.
        """
        considered_visits = self.considered_visits[simulation]
        gumbel_kernels.select(self.tree, self.gumbel, considered_visits, *self._constants, parents, actions)

    def recommend(self) -> tuple[Ints, Floats32]:
        """What to play at the roots once all simulations are done.

        Returns:
            int64[B], the best of the most visited actions, `NO_ACTION` where the root is terminal; and float32[B, A],
            the improved policy, which is 0 for illegal actions.
        """
        actions = np.empty(len(self.gumbel), dtype=np.int64)
        action_weights = np.empty((len(actions), self.tree.num_actions))
        gumbel_kernels.recommend(self.tree, self.gumbel, *self._constants, actions, action_weights)
        return actions, action_weights.astype(np.float32)

    @cached_property
    def _constants(self) -> tuple[float, float, int]:
        settings = self.settings
        return settings.c_visit, settings.c_scale, NORMALISATIONS[settings.normalise]


@lru_cache
def considered_visits_sequence(num_considered: int, num_simulations: int) -> tuple[int, ...]:
    """Sequential halving: how many visits the root's action has before each simulation.

    In each phase the actions left get equally many visits, about num_simulations / log2(num_considered) together;
    then the better half goes on, but never fewer than two, until the simulations are spent (Karnin, Koren and Somekh,
    ICML 2013; rounded as in mctx).
    """
    if num_considered <= 1:
        return tuple(range(num_simulations))
    num_phases = math.ceil(math.log2(num_considered))
    sequence: list[int] = []
    num_left, visits = num_considered, 0
    while len(sequence) < num_simulations:
        extra_visits = max(num_simulations // (num_phases * num_left), 1)
        sequence += [visits + extra for extra in range(extra_visits) for _ in range(num_left)]
        num_left, visits = max(num_left // 2, 2), visits + extra_visits
    return tuple(sequence[:num_simulations])
