"""EGRL as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.egrl.config import EGRLConfig
from agents.egrl.run import Run
from agents.evaluator import MapEvaluator
from agents.learning.agent import LearningAgent
from agents.learning.graph_policy import GraphPolicy
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation


class EGRL(LearningAgent[MapEvaluator, GraphPolicy]):
    """Evolutionary graph reinforcement learning (Khadka et al., ICLR 2021), and what we added to it.

    A population of graph policies and Boltzmann chromosomes evolves; beside it a graph policy learns by discrete
    soft actor-critic from everything the population tries, and migrates into it each generation. See `EGRLConfig`
    for the options beyond the paper, and agents/egrl/README.md for what each of them is worth.

    Args:
        config: every constant; default: the best we found. `EGRLConfig.paper()` is the published method.
        policy: a graph policy, or a file of one, to start from.
        out: folder for checkpoint.pt, policy.pt and TensorBoard's curves; None keeps nothing.
        resume: go on from the checkpoint in `out`, if there is one, until `budget` is spent.
        every: generations between checkpoints.
    """

    name = "egrl"
    formulations = (Formulation.ONE_SHOT,)
    network = GraphPolicy

    def __init__(
        self,
        config: EGRLConfig | None = None,
        *,
        policy: GraphPolicy | str | Path | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        every: int = 10,
    ) -> None:
        super().__init__(config or EGRLConfig(), policy, out, resume, every)

    def new_run(self, evaluators: Sequence[MapEvaluator], seed: int) -> Run:
        """A run on machines with equally many levels; a member's fitness is its mean reward over the programs.

        Raises:
            AgentError: if the machines or the given policy do not fit together.
        """
        levels = {evaluator.env.accelerator.num_levels for evaluator in evaluators}
        if len(levels) > 1:
            raise AgentError(f"The machines have {sorted(levels)} memory levels; train on machines with equally many.")
        if self.policy is not None and self.policy.levels not in levels:
            raise AgentError(
                f"The policy maps to {self.policy.levels} memory levels, the machine has {levels.pop()}; "
                "pass a policy that was trained on such a machine."
            )
        return Run(self.config, evaluators, self.policy, seed)
