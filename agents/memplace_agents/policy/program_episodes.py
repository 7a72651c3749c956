"""Episodes of one program for a policy that plays any program: what it sees, what it is paid, and the plans it makes.

A policy decides the entries of `StepsProblem` in order. With `rules`, it sees what the rules do with each entry, and
undecided entries are taken to be where the best rule puts them: the time that a level saves, and the reward of a
decision, are those against that plan. Without, they are taken to be in the backing memory.
"""

from __future__ import annotations

from copy import copy
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memplace_agents.cheap_plans import cheap_plans
from memplace_agents.learning.rollouts import Bools, Turn
from memplace_agents.policy.entry_context import SINGLE, messages, op_features, rule_features
from memplace_env.envs.steps import StepsProblem
from memplace_env.envs.steps.step_features import PROGRAM_FEATURES, STATE_FEATURES
from memplace_env.envs.steps.step_kernels import CURSOR, HEAD, MASK, MISSED, SAVED, first_state
from memplace_env.envs.steps.step_tables import BACKING, LEVELS, entry_of_tensors
from memplace_env.placement.compiler.evaluate import evaluate_assignments
from memplace_env.placement.compiler.placing_order import schedule_of
from memplace_env.placement.simulator import evaluate_plans
from memplace_env.program.program import Ints

_LATER: Final = len(STATE_FEATURES) + len(PROGRAM_FEATURES)
"""Number of features after the waves."""


class ProgramEpisodes:
    """Episodes of one program side by side; see `rollouts.Episodes`.

    Args:
        problem: the problem, in the order of density.
        rules: whether the policy knows the rules' plans.
        graph: whether it sees the features of neighbours.

    Attributes:
        length: decisions of an episode, E.
        base: int64[E], the action that undecided entries are taken to have.
        base_ps: latency of the compiler's plan of the base, ps.
        rule_ps: latency of the best rule's own plan, ps.
        inputs: length of an observation.
    """

    entries = 0
    actions = LEVELS

    def __init__(self, problem: StepsProblem, rules: bool = True, graph: bool = True) -> None:
        task, tables = problem.task, problem.tables
        plans = list(cheap_plans(problem.one_shot).values())
        latency = np.array([report.latency_ps for report in evaluate_plans(task, plans)])
        self.rule_ps, self.length = int(latency.min()), problem.num_decisions
        levels = np.array([plans[i].tensor_levels(task.program) for i in np.argsort(latency, kind="stable")])
        if not rules:
            levels = np.full_like(levels[:1], task.backing)
        decided = problem.one_shot.assignments_of(levels)[:, tables.decision]
        by_rule = np.where(decided == task.backing, BACKING, decided)
        self.base, self._levels = by_rule[0], levels[0].astype(np.int64)
        self._entry_of = entry_of_tensors(problem.one_shot, tables.decision)
        context = rule_features(problem, by_rule, self._levels) if rules else np.zeros((self.length, 0))
        own = np.column_stack([tables.entry_features[:, :SINGLE], context])
        parts = [own[:, SINGLE:], messages(tables, own, op_features(problem, self._levels))] if graph else [context]
        self._context = np.column_stack(parts).astype(np.float32)
        self._saved = MISSED if rules else SAVED
        self.problem = problem
        if rules:
            # "Would save" then says: with undecided entries where the best rule puts them.
            self.problem = copy(problem)
            self.problem.tables = tables._replace(fastest=self.base)
            self.problem.tables = self.problem.tables._replace(first_state=first_state(self.problem.tables))
        self.base_ps = int(self._latency_ps(self._levels[None])[0])
        self.begin(1)
        self.inputs = self.turn().observation.shape[1]

    def begin(self, count: int) -> None:
        """Begin `count` episodes."""
        self._states = self.problem.new_states(count)
        self._rows = self.problem.observe(self._states)
        self._paid = np.zeros(count)

    def turn(self) -> Turn:
        """Return the present decisions."""
        entry, seen = int(self._states[0, CURSOR]) % self.length, self._rows
        legal = (self._states[:, MASK, None] >> np.arange(LEVELS) & 1).astype(bool)
        context = np.broadcast_to(self._context[entry], (len(seen), self._context.shape[1]))
        observation = np.concatenate([seen[:, : LEVELS + SINGLE], seen[:, -_LATER:], context], axis=1)
        return Turn(observation, legal, np.zeros(len(seen), dtype=np.int64))

    def step(self, actions: Ints) -> tuple[NDArray[np.float64], Bools]:
        """Decide an entry in each episode; rewards are percent of the base's latency, and all episodes begin anew.

        Rewards of an episode add up to what its plan saves of the latency of the base's plan.
        """
        entry, rows = int(self._states[0, CURSOR]), np.arange(len(actions))
        saved = np.zeros((len(actions), LEVELS))
        saved[:, :BACKING] = self._states[:, self._saved : self._saved + BACKING]
        rewards = 100 / self.base_ps * (saved[rows, actions] - saved[rows, self.base[entry]])
        self.decide(actions)
        self._paid += rewards
        over = entry + 1 == self.length
        if over:
            rewards += 100 * (1 - self.latency_ps() / self.base_ps) - self._paid
            self.begin(len(actions))
        return rewards, np.full(len(actions), over)

    def decide(self, actions: Ints) -> None:
        """Decide an entry in each episode, without rewards."""
        _, _, self._rows = self.problem.step(self._states, actions)

    def latency_ps(self) -> Ints:
        """Return int64[B], latencies of the compiler's plans of finished episodes."""
        return self._latency_ps(self.levels())

    def levels(self) -> Ints:
        """Return int64[B, K], levels of finished episodes: the base's own where all decisions are as in the base."""
        levels = np.repeat(self._levels[None], len(self._states), axis=0)
        tensors = np.flatnonzero(self._entry_of >= 0)
        entry = self._entry_of[tensors]
        played = self._states[:, HEAD + entry]
        wanted = np.where(played == BACKING, self.problem.task.backing, played)
        levels[:, tensors] = np.where(played == self.base[entry], levels[:, tensors], wanted)
        return levels

    def _latency_ps(self, levels: Ints) -> Ints:
        task = self.problem.task
        schedule = schedule_of(task, "weights-before-results")
        return evaluate_assignments(schedule, levels, np.arange(task.program.num_tensors), threads=1).latency_ps
