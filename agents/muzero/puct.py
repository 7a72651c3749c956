"""MuZero's own search: actions by upper confidence bounds, noise at the root, a policy from visits.

Schrittwieser et al., "Mastering Atari, Go, chess and shogi by planning with a learned model", Nature 2020
(arXiv 1911.08265), appendix B, and the pseudocode published with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from agents.muzero import puct_kernels
from agents.muzero.base import NO_ACTION, ROOT_INDEX, Floats, Floats32
from agents.muzero.tree import Tree
from memplace_env.errors import AgentError
from memplace_env.workload.program import Ints

_TINY = np.finfo(np.float64).tiny
"""Gamma variates are at least this, so that their shares are never 0 / 0."""


@dataclass(frozen=True)
class Puct:
    """Settings of MuZero's own search; the defaults are the paper's.

    Attributes:
        pb_c_init: an action's bound is its q, brought into [0, 1] by the least and greatest q of the tree (0 without
            visits), + prior x sqrt(n) / (1 + its visits) x (pb_c_init + log((1 + n + pb_c_base) / pb_c_base))
            (appendix B, equation 2). The visits n of its node include the one that made the node, so that the first
            choice there is the prior's.
        pb_c_base: see there.
        dirichlet_alpha: concentration of the noise at the root; 0.3 is the paper's for chess.
        dirichlet_fraction: share of the noise in the priors of the root; 0 for none.
        temperature: actions are drawn in proportion to visits ** (1 / temperature); 0 takes the most visited one.

    Raises:
        AgentError: if a setting makes no sense.
    """

    pb_c_init: float = 1.25
    pb_c_base: float = 19652.0
    dirichlet_alpha: float = 0.3
    dirichlet_fraction: float = 0.25
    temperature: float = 1.0

    def __post_init__(self) -> None:
        for name in ("pb_c_base", "dirichlet_alpha"):
            if not 0 < getattr(self, name) < math.inf:
                raise AgentError(f"{name}={getattr(self, name)} makes no sense; pass a finite number above 0.")
        for name in ("pb_c_init", "temperature"):
            if not 0 <= getattr(self, name) < math.inf:
                raise AgentError(f"{name}={getattr(self, name)} makes no sense; pass a finite number from 0 on.")
        if not 0 <= self.dirichlet_fraction <= 1:
            raise AgentError(f"dirichlet_fraction={self.dirichlet_fraction} is no share; pass a number from 0 to 1.")

    def sample_noise(self, rng: np.random.Generator, batch_size: int, num_actions: int) -> Floats:
        """float64[B, A + 1]: gamma variates, which make Dirichlet noise over any legal actions, and a uniform one."""
        gammas = rng.gamma(self.dirichlet_alpha, size=(batch_size, num_actions))
        return np.column_stack([np.maximum(gammas, _TINY), rng.random(batch_size)])

    def start(self, tree: Tree, noise: Floats, num_simulations: int) -> PuctSearch:
        """A search in trees of nothing but roots; mixes noise from `sample_noise` into the priors of the roots."""
        root_priors = tree.children_priors[:, ROOT_INDEX]
        gammas = np.where(tree.children_prior_logits[:, ROOT_INDEX] > -np.inf, noise[:, :-1], 0.0)
        dirichlet = gammas / np.maximum(gammas.sum(axis=1, keepdims=True), _TINY)
        root_priors[:] = (1 - self.dirichlet_fraction) * root_priors + self.dirichlet_fraction * dirichlet
        exploration = [
            (self.pb_c_init + math.log((1 + visits + self.pb_c_base) / self.pb_c_base)) * math.sqrt(visits)
            for visits in range(num_simulations + 1)
        ]
        return PuctSearch(self, tree, noise[:, -1], np.array(exploration))


@dataclass(frozen=True)
class PuctSearch:
    """One search of `B` games with `n` simulations.

    Attributes:
        settings: of the search.
        tree: of the games.
        uniform: float64[B] in [0, 1), from which the actions are drawn.
        exploration: float64[n + 1], weight of exploration in a node of so many visits.
    """

    settings: Puct
    tree: Tree
    uniform: Floats
    exploration: Floats

    def select(self, simulation: int, parents: Ints, actions: Ints) -> None:
        """Descend from every root to the action to expand.

        Args:
            simulation: 0..n - 1; all are alike.
            parents, actions: int64[B], filled with the nodes reached and the actions to play there; both 0 where the
                root is terminal.
        """
        puct_kernels.select(self.tree, self.exploration, parents, actions)

    def recommend(self) -> tuple[Ints, Floats32]:
        """What to play at the roots once all simulations are done.

        Returns:
            int64[B], actions drawn by their visits, `NO_ACTION` where the root is terminal; and float32[B, A], the
            shares of the visits, whatever the temperature.
        """
        visits = self.tree.children_visits[:, ROOT_INDEX].astype(np.float64)
        if self.settings.temperature == 0:
            actions = visits.argmax(axis=1)
        else:
            max_visits = np.maximum(visits.max(axis=1, keepdims=True), 1)
            cumulative = ((visits / max_visits) ** (1 / self.settings.temperature)).cumsum(axis=1)
            actions = (cumulative <= (self.uniform * cumulative[:, -1])[:, None]).sum(axis=1)
        actions = np.where(self.tree.terminal[:, ROOT_INDEX], NO_ACTION, actions).astype(np.int64)
        action_weights = visits / np.maximum(visits.sum(axis=1, keepdims=True), 1)
        return actions, action_weights.astype(np.float32)
