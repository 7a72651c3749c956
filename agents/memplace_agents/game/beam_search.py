"""Beam search: many partial games side by side, each ranked by its latency when finished along a guide."""

from __future__ import annotations

import numpy as np

from memplace_agents.base import Agent
from memplace_agents.cheap_plans import offer_cheap_plans
from memplace_agents.evaluator import GameEvaluator
from memplace_agents.game import annealing_kernels
from memplace_agents.game.preferences import Preferences, finished, first_preferences
from memplace_env._lib.errors import AgentError
from memplace_env._lib.threads import in_chunks
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.state import BLOCKS, ESTIMATE, LIVE, QUEUE_HEAD, QUEUE_TAIL
from memplace_env.program.program import Ints

FEATURES = [ESTIMATE, BLOCKS, LIVE, QUEUE_HEAD, QUEUE_TAIL]
"""Fields of the state: partial games that agree in these and in their final latency count as one, so that the beam
stays diverse."""


class BeamSearch(Agent[GameEvaluator]):
    """Keeps the partial games with the least latency when finished along a guide, the best game known so far.

    The estimated latency alone says little about a partial game, as it leaves out what the data in fast memory will
    still save. As the guide's own game always stays in the beam, no pass is worse than its guide. A pass that
    improves on its guide is followed by one of the same width along the better game, one that does not by one twice
    as wide: many narrow passes go further than a wide one in the same time.

    Args:
        width: partial games that the first pass keeps; fewer if the budget would not last for a pass.
        widest: the search ends when a pass of this width does not improve on its guide.

    Raises:
        AgentError: if the width is below 1 or the widest below that.
    """

    def __init__(self, width: int = 4, widest: int = 64) -> None:
        if not 1 <= width <= widest:
            raise AgentError(f"width={width}, widest={widest} are out of range; pass at least 1, and widest >= width.")
        self.width = width
        self.widest = widest

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Run passes until one of the greatest width brings nothing; nothing is random."""
        problem = evaluator.env.problem
        offer_cheap_plans(evaluator)
        guides = first_preferences(problem, evaluator.incumbent)[: evaluator.remaining]
        if not len(guides):
            return
        states = finished(problem, guides)
        evaluator.offer_states(states)
        guide, latency = guides[states[:, ESTIMATE].argmin()], states[:, ESTIMATE].min()
        width = self.width
        while width <= self.widest:
            result = self._pass(evaluator, guide, width)
            if result is None:
                break
            if result[1] < latency:
                guide, latency = result
            else:
                width *= 2

    def _pass(self, evaluator: GameEvaluator, guide: Preferences, width: int) -> tuple[Preferences, int] | None:
        """Decide all uses once; return the actions of the best game and its latency in ps.

        None if the budget or the time runs out on the way.
        """
        problem = evaluator.env.problem
        states, actions = problem.new_states(1), np.empty((1, problem.num_decisions), dtype=np.int8)
        for use in range(problem.num_decisions):
            # Row i of `states` is the game after the first `use` actions of row i of `actions`.
            parent, action = np.nonzero(problem.legal(states))
            children = states[parent]
            problem.play(children, action)
            kept = np.arange(len(children))
            # Without a choice in any state there is nothing to rank, and no game to count.
            if len(children) > len(states):
                if evaluator.remaining < len(children):
                    return None
                ends = _ends(problem, children, guide)
                # With two children for each state, a beam of this width makes the budget last to the last use.
                share = evaluator.remaining // (2 * (problem.num_decisions - use))
                kept = _best(children, ends, max(min(width, share), 1))
                best = children[kept[:1]]
                annealing_kernels.follow(problem.tables, problem.layout, best[0], guide)
                evaluator.offer_states(best, games=len(children))
            states, actions = children[kept], actions[parent[kept]]
            actions[:, use] = action[kept]
        leader = states[:, ESTIMATE].argmin()
        return actions[leader], states[leader, ESTIMATE].item()


def _ends(problem: MallocGameProblem, states: Ints, guide: Preferences) -> Ints:
    """Return the latency of each partial game when finished along the guide, int64[B] in ps."""
    ends = np.empty(len(states), dtype=np.int64)
    in_chunks(
        lambda a, b: annealing_kernels.preview(problem.tables, problem.layout, states[a:b], guide, ends[a:b]),
        len(states),
    )
    return ends


def _best(states: Ints, ends: Ints, width: int) -> Ints:
    """Return indices of up to `width` different partial games, by rising final latency."""
    # Rows are sorted by their first column, the final latency, before the others break ties.
    _, first = np.unique(np.column_stack([ends, states[:, FEATURES]]), axis=0, return_index=True)
    return first[:width]
