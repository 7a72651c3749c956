"""Beyond the paper: a policy that learns on the surrogate, before one of its assignments is evaluated.

Annealing moves a few decisions at a time. Where only many together gain anything, as where an op is as slow as the
slowest of its memories, it ends early: a policy that samples all decisions and learns from its best samples goes on. It
needs tens of thousands of samples, more than a simulator should be asked for, but the surrogate gives them in seconds:
a policy learned in a model of the environment (Dyna; Sutton, 1991).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from memplace_agents.egrl.surrogate import Surrogate
from memplace_agents.learning.entry_features import features_of
from memplace_agents.learning.factored_learner import EntryDecisions, FactoredLearner, FactoredSettings
from memplace_agents.learning.flat_policy import started
from memplace_agents.search.factored_programs import fastest, whole_assignments
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.program.program import Ints

_SETTINGS = FactoredSettings(samples=128, epochs=1, table_rate=0.03, start=0.5)
"""Settings of `plan-gradient` with fewer gradient steps on more rounds; from trials with `_MANY` assignments on the
three paper workloads, Llama-1B and ELECTRA-small."""
_MANY, _FASTER, _FASTEST = 64_000, 0.7, 0.1
"""Assignments for which the rate is as it is set; the exponent by which it rises with fewer, as in
`plan-gradient`, and its limit."""


def imagined(
    problem: OneShotProblem,
    surrogate: Surrogate,
    first: Ints,
    samples: int,
    seed: int,
    may_go_on: Callable[[], bool] = lambda: True,
) -> Ints:
    """Return new assignments int64[K, S], the best that a fresh policy comes upon; the best one first. K may be 0.

    Args:
        problem: the one-shot problem.
        surrogate: says how long an assignment takes.
        first: int64[F, S], assignments that are known; the policy starts near the best. At least one.
        samples: assignments that the policy tries, at least 1; up to a round more.
        seed: seed of all randomness.
        may_go_on: asked before each round.
    """
    rng, movable = np.random.default_rng(seed), problem.movable
    rate = min(_SETTINGS.table_rate * (_MANY / samples) ** _FASTER, _FASTEST)
    settings = replace(_SETTINGS, samples=min(_SETTINGS.samples, samples), table_rate=rate)
    features, legal = features_of(problem), problem.mask[movable]
    decisions = EntryDecisions(torch.from_numpy(features), torch.from_numpy(legal))
    network = started((decisions.inputs, settings.width, decisions.actions), None, seed)
    learner = FactoredLearner(settings, network, [decisions])
    best, times_s = fastest(first, surrogate.latencies_s(first))
    learner.start_from(best[0, movable], 0)
    for done in range(0, samples, settings.samples):
        if not may_go_on():
            break
        left = 1 - done / samples
        levels = learner.sample(settings.samples, rng, 0, left)
        tried = whole_assignments(problem, levels)
        took_s = surrogate.latencies_s(tried)
        best, times_s = fastest(np.concatenate([best, tried]), np.concatenate([times_s, took_s]))
        learner.learn([(levels, took_s)], [best[:, movable]], left)
    is_known = (best[:, None] == first).all(axis=-1).any(axis=-1)
    new: Ints = best[~is_known]
    return new
