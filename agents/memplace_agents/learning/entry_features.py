"""Features of each decision of a program, for a network."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.learning.factored_learner import EntryDecisions
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.factored_programs import FactoredProgram
from memplace_agents.search.preferences import finished
from memplace_env.envs.malloc_game import GameBatch, MallocGameProblem
from memplace_env.envs.malloc_game.flat import empty_flat
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.envs.one_shot.observation import node_features


def entry_decisions(program: FactoredProgram) -> EntryDecisions:
    """Return the decisions of a program with their features; of maps, the network alone says which are alike."""
    problem, (legal, alike) = program.evaluator.env.problem, program.decisions
    shared = None if isinstance(problem, OneShotProblem) else alike
    return EntryDecisions(torch.from_numpy(features_of(problem)), torch.from_numpy(legal), shared)


def features_of(problem: OneShotProblem | MallocGameProblem) -> NDArray[np.float32]:
    """Return float32[M, F], what the network sees of the decisions that have a choice.

    In one-shot problems that is the op, and whether the decision is about weights or results. In games the policy
    decides without seeing the game: the features of a use are what the player sees there in the best game that is known
    without a search.
    """
    if isinstance(problem, OneShotProblem):
        nodes = node_features(problem.program)
        kind = np.eye(2, dtype=np.float32)
        features = np.concatenate([np.repeat(nodes, 2, axis=0), np.tile(kind, (len(nodes), 1))], axis=1)
        movable: NDArray[np.float32] = features[problem.movable]
        return movable
    plans = np.stack([preferences_of_plan(problem, plan) for plan in cheap_plans(problem).values()])
    preferred = plans[problem.latency_s(finished(problem, plans)).argmin()].astype(np.int64)
    batch, features = GameBatch([problem], [problem.first_state], flat=True), empty_flat(problem.num_decisions)
    rows = batch.observe()
    for use, action in enumerate(preferred):
        features[use] = rows[0]
        batch.step(action[None], rows)
    return features
