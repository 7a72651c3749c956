"""The cross-entropy method for both formulations: what plan-gradient learns, without a network."""

from __future__ import annotations

from typing import Any

import numpy as np

from memplace_agents.learning.plan_distribution import DistributionSettings, PlanDistribution
from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import GameEvaluator, OneShotEvaluator
from memplace_agents.search.factored_programs import program_of

GAMES = DistributionSettings(least_samples=16, lean=0.0, together=0.8)
"""Settings in mallocGame, where no action is the fastest by itself.

The rate is from trials on the games LeViT-128, DiT-S-2, SegFormer on `edge-tpu`, MLP-Mixer-train and GPT2-train, and on
the maps of CoAtNet-0, GhostNet, PoolFormer-S12, Swin-tiny, Whisper-tiny, DistilBERT and EfficientFormer-L1. Rounds and
`together` are from strassen2, WaveNet, DLRM, SegFormer, DeiT-small, DiT-S-2, LeViT-128 and ResNet50 (games) and
PoolFormer-S12, PNASNet-5, ResNet101, T5-base, DeiT-small, GPT2, RT-DETR and WaveNet (maps); `growth` and the fall of
`together` also from the games of DistilBERT and ViT, on which an earlier choice failed at 10,000 plans.
"""


class CrossEntropy(Agent[OneShotEvaluator | GameEvaluator]):
    """Samples all decisions of a plan at once, and learns a table of logits from the best plans of each round.

    It begins with the plans of all rules and near the best of them, so it is never worse than that. Rounds and rates
    follow the budget, or the plans that a time limit allows at the pace so far.

    Args:
        settings: every constant; None for those of the formulation.
        policy: a `FlatPolicy` of `PlanGradient` from other programs, a file of one, or "shipped" for the one that comes
            with the package (one-shot, three levels); its log-probabilities are added to the first logits. It needs
            PyTorch; one that does not fit is an `AgentError` of `solve`.

    Raises:
        AgentError: if a setting is out of range, or the policy cannot be read.
    """

    def __init__(self, settings: DistributionSettings | None = None, *, policy: Any = None) -> None:
        self.settings, self.policy = settings, policy
        if policy is not None:
            from memplace_agents.learning.entry_features import read_prior

            self.policy = read_prior(policy)

    def run(self, evaluator: OneShotEvaluator | GameEvaluator, seed: int) -> None:
        """Sample rounds of plans and learn from them until the budget is spent."""
        program, rng = program_of(evaluator), np.random.default_rng(seed)
        settings = self.settings or (GAMES if isinstance(evaluator, GameEvaluator) else DistributionSettings())
        program.begin()
        distribution = PlanDistribution(settings, program.decisions)
        if self.policy is not None:
            from memplace_agents.learning.entry_features import prior_of

            distribution.logits[:] += prior_of(self.policy, program)
        if len(program.best):
            distribution.start_from(program.best[0])
        while not program.done:
            distribution.settings = settings.for_budget(evaluator.planned)
            left = evaluator.fraction_left
            levels, times_s = program.evaluate(distribution.sample(distribution.settings.samples, rng, left))
            if len(levels):
                distribution.learn(levels, times_s, program.best, left)
