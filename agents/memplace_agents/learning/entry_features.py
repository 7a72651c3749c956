"""Features of each decision of a program, for a network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.learning.factored_learner import EntryDecisions
from memplace_agents.learning.flat_policy import FlatPolicy, check_numbers, masked_log_softmax
from memplace_agents.learning.policy_file import load_policy
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.factored_programs import FactoredProgram
from memplace_agents.search.preferences import finished
from memplace_env._lib.errors import AgentError
from memplace_env._lib.foreign import described
from memplace_env.envs.malloc_game import GameBatch, MallocGameProblem
from memplace_env.envs.malloc_game.flat import empty_flat
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.envs.one_shot.observation import node_features

MOST_NATS = 3.0
"""Most by which a prior makes a level less likely; our choice."""
SHIPPED, _SHIPPED_FILE = "shipped", Path(__file__).with_name("one-shot-prior.pt")
"""Name of the policy that comes with the package, for one-shot problems of chips with three levels, and its file; the
experiment `prior` trained it, see there."""


def entry_decisions(program: FactoredProgram) -> EntryDecisions:
    """Return the decisions of a program with their features; of maps, the network alone says which are alike."""
    problem, (legal, alike) = program.evaluator.env.problem, program.decisions
    shared = None if isinstance(problem, OneShotProblem) else alike
    return EntryDecisions(torch.from_numpy(features_of(problem)), torch.from_numpy(legal), shared)


def check_fits(policy: FlatPolicy, decisions: EntryDecisions) -> None:
    """Check that a policy is for decisions like these.

    Raises:
        AgentError: if it is not.
    """
    options, (inputs, actions) = policy.options, (decisions.inputs, decisions.actions)
    if (options["inputs"], options["actions"]) != (inputs, actions):
        raise AgentError(
            f"The policy has {options['inputs']} inputs and {options['actions']} actions, where {inputs} and "
            f"{actions} are needed; pass one that was trained in this formulation, with as many memory levels."
        )


def read_prior(policy: FlatPolicy | str | Path) -> FlatPolicy:
    """Return a policy, that of a file, or the one that is `SHIPPED`.

    Raises:
        AgentError: if it is none or cannot be read.
    """
    if isinstance(policy, str | Path):
        return load_policy(_SHIPPED_FILE if str(policy) == SHIPPED else Path(policy), FlatPolicy)
    if not isinstance(policy, FlatPolicy):
        raise AgentError(f"policy is a FlatPolicy of plan-gradient, or a file of one, not {described(policy)}.")
    return policy


@torch.no_grad()
def prior_of(policy: FlatPolicy, program: FactoredProgram) -> NDArray[np.float64]:
    """Return float64[M, L], log-probabilities of a program's decisions by a policy, -3 at least.

    Raises:
        AgentError: if the policy does not fit, or computes no numbers.
    """
    decisions = entry_decisions(program)
    check_fits(policy, decisions)
    log_policy = masked_log_softmax(policy(decisions.features), decisions.legal)
    check_numbers(log_policy, policy, program.evaluator.env.program.name)
    prior: NDArray[np.float64] = log_policy.clamp(min=-MOST_NATS).double().numpy()
    return prior


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
