"""Gumbel MuZero: settings of a search of few simulations that still improves the policy.

Danihelka, Guez, Schrittwieser and Silver, "Policy improvement by planning with Gumbel", ICLR 2022. At the root,
Gumbel noise samples actions without replacement, and sequential halving spends the simulations on them; elsewhere
actions follow the improved policy: softmax(logits + sigma(completed Q)), where actions without visits get the value
v_mix of the paper's appendix D.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from memplace_agents.muzero.search_types import ROOT_INDEX, Floats
from memplace_agents.muzero.tree import Tree
from memplace_env._lib.errors import AgentError
from memplace_env.program.program import Ints


@dataclass(frozen=True)
class Gumbel:
    """Settings of Gumbel MuZero's search; the defaults are the paper's and its authors' library's (mctx).

    Attributes:
        max_num_considered_actions: number of actions sampled at the root.
        c_visit: sigma(q) = (c_visit + most visits of an action) x c_scale x normalised q.
        c_scale: see there; the paper has 1 for board games and 0.1 for Atari.
        normalise: whether q is brought into [0, 1] by the range of the completed Q of its node.
        noise_scale: factor on the Gumbel noise, one for all games or float64[B]; 0 makes the search deterministic.

    Raises:
        AgentError: if a setting is out of range.
    """

    max_num_considered_actions: int = 16
    c_visit: float = 50.0
    c_scale: float = 0.1
    normalise: bool = True
    noise_scale: float | Floats = 1.0

    def __post_init__(self) -> None:
        if self.max_num_considered_actions < 1:
            raise AgentError(f"max_num_considered_actions must be at least 1, not {self.max_num_considered_actions}.")
        for name in ("c_visit", "c_scale", "noise_scale"):
            values = np.asarray(getattr(self, name))
            if not ((values >= 0) & (values < math.inf)).all():
                raise AgentError(f"{name} must be at least 0 and finite, not {getattr(self, name)}.")

    def sample_noise(self, rng: np.random.Generator, batch_size: int, num_actions: int) -> Floats:
        """Draw the Gumbel noise of the roots' actions, float64[B, A]."""
        return np.asarray(np.reshape(self.noise_scale, (-1, 1)) * rng.gumbel(size=(batch_size, num_actions)))

    def considered_visits(self, tree: Tree, num_simulations: int) -> Ints:
        """Return int64[n, B], the visits that the root's action must have before each of `n` simulations."""
        num_legal = (tree.children_prior_logits[:, ROOT_INDEX] > -np.inf).sum(axis=1)
        num_considered = np.minimum(num_legal, self.max_num_considered_actions)
        # int64[A + 1, n]: the sequence for each number of considered actions.
        table = np.array([considered_visits_sequence(num, num_simulations) for num in range(tree.num_actions + 1)])
        return np.ascontiguousarray(table[num_considered].T)


@lru_cache
def considered_visits_sequence(num_considered: int, num_simulations: int) -> tuple[int, ...]:
    """Return how many visits the root's action has before each simulation: sequential halving.

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
        # The actions left have `visits` visits each; the phase visits them in turn, `extra_visits` times.
        extra_visits = max(num_simulations // (num_phases * num_left), 1)
        sequence += [visits + extra for extra in range(extra_visits) for _ in range(num_left)]
        num_left, visits = max(num_left // 2, 2), visits + extra_visits
    return tuple(sequence[:num_simulations])
