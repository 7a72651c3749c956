"""Programs whose decisions a policy takes all at once: assignments of maps, preferred actions of games."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.cheap_plans import cheap_plans, first_assignments, offer_cheap_plans
from memplace_agents.evaluator import Evaluator, GameEvaluator, OneShotEvaluator
from memplace_agents.game.preferences import by_role, finished, first_preferences
from memplace_agents.learning.factored_learner import EntryDecisions
from memplace_agents.learning.saved_tensors import below, numbers
from memplace_agents.ppo.game_episodes import GameEpisodes, seen_along
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.envs.one_shot.observation import node_features
from memplace_env.program.program import Ints

KEPT = 32
"""Number of best choices that are imitated; our choice."""
AT_A_TIME = 16
"""Games that are played before the time is looked at; our choice."""


class FactoredProgram(ABC):
    """The search on one program.

    Args:
        evaluator: counts the plans.
        decisions: what is decided.

    Attributes:
        evaluator, decisions: as given.
        best: int64[K, M], the best choices so far, the fastest first.
    """

    def __init__(self, evaluator: Evaluator, decisions: EntryDecisions) -> None:
        self.evaluator, self.decisions = evaluator, decisions
        self.best: Ints = np.zeros((0, len(decisions.legal)), dtype=np.int64)
        self._times_s = np.zeros(0)

    @abstractmethod
    def begin(self) -> None:
        """Evaluate the plans of the rules, and choices that follow them."""

    @abstractmethod
    def _latencies_s(self, choices: Ints) -> NDArray[np.float64]:
        """Evaluate the first of these choices int64[N, M] while the budget lasts; return their latencies."""

    def evaluate(self, choices: Ints) -> tuple[Ints, NDArray[np.float64]]:
        """Evaluate choices int64[N, M] while the budget lasts; return those evaluated, and their latencies."""
        times_s = self._latencies_s(choices)
        choices = choices[: len(times_s)]
        self.best, self._times_s = fastest(
            np.concatenate([self.best, choices]), np.concatenate([self._times_s, times_s])
        )
        return choices, times_s

    def state_dict(self) -> dict[str, Any]:
        """Return the best choices and the evaluator's state."""
        kept = {"best": torch.from_numpy(self.best), "latencies": torch.from_numpy(self._times_s)}
        return kept | {"evaluator": self.evaluator.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        best = numbers(state["best"], np.int64, (None, len(self.decisions.legal)))
        self.best = below(best, self.decisions.actions)
        self._times_s = numbers(state["latencies"], np.float64, (len(self.best),))
        self.evaluator.load_state_dict(state["evaluator"])


class Assignments(FactoredProgram):
    """Levels of all tensors with a choice, in one-shot environments."""

    evaluator: OneShotEvaluator

    def __init__(self, evaluator: OneShotEvaluator) -> None:
        self._problem = evaluator.env.problem
        super().__init__(evaluator, assignment_decisions(self._problem))

    def begin(self) -> None:
        """Evaluate the plans of the rules, and their levels as assignments."""
        before = self.evaluator.incumbent
        offer_cheap_plans(self.evaluator)
        self.evaluate(first_assignments(self._problem, before)[:, self._problem.movable])

    def _latencies_s(self, choices: Ints) -> NDArray[np.float64]:
        return self.evaluator(whole_assignments(self._problem, choices)).latency_s


class Games(FactoredProgram):
    """Preferred actions of all uses, in mallocGame; see `preferences.finished`.

    The policy decides without seeing the game: the features of a use are what the player sees there in the best game
    that is known without a search.
    """

    evaluator: GameEvaluator

    def __init__(self, evaluator: GameEvaluator) -> None:
        self._problem = evaluator.env.problem
        super().__init__(evaluator, game_decisions(self._problem))

    def begin(self) -> None:
        """Evaluate the plans of the rules, and the first games of all searches."""
        before = self.evaluator.incumbent
        offer_cheap_plans(self.evaluator)
        self.evaluate(first_preferences(self._problem, before).astype(np.int64))

    def _latencies_s(self, choices: Ints) -> NDArray[np.float64]:
        times_s = [np.zeros(0)]
        for first in range(0, len(choices), AT_A_TIME):  # games of large programs take tenths of a second
            some = choices[first : first + AT_A_TIME][: self.evaluator.remaining].astype(np.int8)
            times_s.append(self.evaluator.offer_states(finished(self._problem, some)))
        return np.concatenate(times_s)


def program_of(evaluator: OneShotEvaluator | GameEvaluator) -> FactoredProgram:
    """Return the program of an evaluator."""
    return Assignments(evaluator) if isinstance(evaluator, OneShotEvaluator) else Games(evaluator)


def fastest(choices: Ints, times_s: NDArray[np.float64]) -> tuple[Ints, NDArray[np.float64]]:
    """Return the `KEPT` fastest of choices int64[N, M], each once, and their times float64[K]."""
    order = np.argsort(times_s, kind="stable")
    _, first = np.unique(choices[order], axis=0, return_index=True)
    kept = order[np.sort(first)[:KEPT]]
    return choices[kept], times_s[kept]


def whole_assignments(problem: OneShotProblem, levels: Ints) -> Ints:
    """Return int64[N, 2T] with these levels int64[N, M] where there is a choice, else the backing memory."""
    assignments = np.full((len(levels), problem.num_decisions), problem.task.backing)
    assignments[:, problem.movable] = levels
    return assignments


def assignment_decisions(problem: OneShotProblem) -> EntryDecisions:
    """Return the decisions of a one-shot problem that have a choice.

    Features are those of the op, and whether the decision is about weights or results.
    """
    nodes = node_features(problem.program)
    kind = np.eye(2, dtype=np.float32)
    features = np.concatenate([np.repeat(nodes, 2, axis=0), np.tile(kind, (len(nodes), 1))], axis=1)
    movable = problem.movable
    return EntryDecisions(torch.from_numpy(features[movable]), torch.from_numpy(problem.mask[movable]))


def game_decisions(problem: MallocGameProblem) -> EntryDecisions:
    """Return the decisions of a game: one for each use, with all actions, of which the nearest legal one is played."""
    plans = np.stack([preferences_of_plan(problem, plan) for plan in cheap_plans(problem).values()])
    preferred = plans[problem.latency_s(finished(problem, plans)).argmin()].astype(np.int64)
    features = torch.from_numpy(seen_along(problem, preferred).observation)
    legal = torch.ones((len(features), GameEpisodes.actions), dtype=torch.bool)
    return EntryDecisions(features, legal, by_role(problem).of)
