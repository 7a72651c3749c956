"""Beam search: many partial games side by side, each judged by how it would end."""

from __future__ import annotations

import numpy as np

from agents.base import Agent
from agents.evaluator import GameEvaluator
from agents.game import kernels
from agents.game.wishes import Wishes, finished, starts
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.state import BLOCKS, ESTIMATE, LIVE, QUEUE_HEAD, QUEUE_TAIL
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation
from memplace_env.threads import in_chunks
from memplace_env.workload.program import Ints

FEATURES = [ESTIMATE, BLOCKS, LIVE, QUEUE_HEAD, QUEUE_TAIL]
"""Partial games that agree in these and in how they would end count as one, so that the beam stays diverse."""


class BeamSearch(Agent[GameEvaluator]):
    """Keeps the partial games that end best when they are finished along a guide: the best game known so far.

    The estimated latency alone tells little about a partial game, as it cannot see what the data in fast memory is
    still good for. As the guide's own game always stays in the beam, no pass is worse than its guide. A pass that
    improves on its guide is followed by one of the same width along the better game, one that does not by one twice
    as wide: many narrow passes go further than a wide one in the same time.

    Args:
        width: partial games that the first pass keeps; fewer where the budget would not last for a pass.
        widest: the search ends when a pass of this width does not improve on its guide.

    Raises:
        AgentError: if the width is below 1 or the widest below that.
    """

    name = "beam-search"
    formulations = (Formulation.GAME,)

    def __init__(self, width: int = 4, widest: int = 64) -> None:
        if not 1 <= width <= widest:
            raise AgentError(f"width={width}, widest={widest} make no sense; pass at least 1, and no less.")
        self.width = width
        self.widest = widest

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Nothing is random, so the seed changes nothing."""
        problem = evaluator.env.problem
        guides = starts(problem, evaluator.incumbent)[: evaluator.budget]
        states = finished(problem, guides)
        evaluator.offer_states(states)
        guide, latency = guides[states[:, ESTIMATE].argmin()], states[:, ESTIMATE].min()
        width = self.width
        while width <= self.widest:
            found = self._pass(evaluator, guide, width)
            if found is None:
                break
            if found[1] < latency:
                guide, latency = found
            else:
                width *= 2

    def _pass(self, evaluator: GameEvaluator, guide: Wishes, width: int) -> tuple[Wishes, int] | None:
        """One pass through all decisions; returns the actions of the best game and its latency in ps.

        None if the budget or the time runs out on the way.
        """
        problem = evaluator.env.problem
        states, actions = problem.new_states(1), np.empty((1, problem.num_decisions), dtype=np.int8)
        for use in range(problem.num_decisions):
            parent, action = np.nonzero(problem.legal(states))
            children = states[parent]
            problem.play(children, action)
            kept = np.arange(len(children))
            if len(children) > len(states):
                if evaluator.remaining < len(children):
                    return None
                ends = _ends(problem, children, guide)
                share = evaluator.remaining // (2 * (problem.num_decisions - use))
                kept = _best(children, ends, max(min(width, share), 1))
                best = children[kept[:1]]
                kernels.follow(problem.tables, problem.layout, best[0], guide)
                evaluator.offer_states(best, games=len(children))
            states, actions = children[kept], actions[parent[kept]]
            actions[:, use] = action[kept]
        leader = states[:, ESTIMATE].argmin()
        return actions[leader], states[leader, ESTIMATE].item()


def _ends(problem: MallocGameProblem, states: Ints, guide: Wishes) -> Ints:
    """int64[B], latency in ps of each partial game when it is finished along the guide."""
    ends = np.empty(len(states), dtype=np.int64)
    in_chunks(lambda a, b: kernels.preview(problem.tables, problem.layout, states[a:b], guide, ends[a:b]), len(states))
    return ends


def _best(states: Ints, ends: Ints, width: int) -> Ints:
    """Up to `width` different partial games, those that end best first."""
    _, first = np.unique(np.column_stack([ends, states[:, FEATURES]]), axis=0, return_index=True)
    return first[:width]
