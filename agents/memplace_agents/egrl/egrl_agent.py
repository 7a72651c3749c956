"""EGRL as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isabstract
from pathlib import Path
from typing import ClassVar

from memplace_agents.egrl.egrl_config import EGRLConfig
from memplace_agents.egrl.egrl_run import EgrlRun
from memplace_agents.learning.graph_policy import GraphPolicy, LevelNetwork
from memplace_agents.learning.learning_agent import LearningAgent
from memplace_agents.search.evaluator import OneShotEvaluator
from memplace_env._lib.errors import AgentError
from memplace_env._lib.foreign import described


class EGRL(LearningAgent[OneShotEvaluator, LevelNetwork]):
    """Evolutionary graph reinforcement learning (Khadka et al., ICLR 2021), with options beyond the paper.

    A population of graph policies and Boltzmann chromosomes evolves; beside it a graph policy learns by discrete
    soft actor-critic from everything the population tries, and migrates into it each generation.

    The config is an `EGRLConfig`, of which `EGRLConfig.paper()` is the published method; the policy is of the class
    `network`, and a round is a generation. All other arguments are those of `LearningAgent`.

    Args:
        network: class of the graph policies, a `LevelNetwork`.

    Raises:
        AgentError: as `LearningAgent`, or if the network is no such class.
    """

    settings = EGRLConfig
    network: ClassVar[type[LevelNetwork]] = GraphPolicy
    rounds_between_checkpoints = 10

    def __init__(
        self,
        config: EGRLConfig | None = None,
        *,
        network: type[LevelNetwork] | None = None,
        policy: LevelNetwork | str | Path | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        every: int | None = None,
    ) -> None:
        if network is not None:
            if not (isinstance(network, type) and issubclass(network, LevelNetwork)) or isabstract(network):
                wanted = "network must be a class derived from LevelNetwork, with a forward of its own"
                raise AgentError(f"{wanted}, not {described(network)}.")
            self.network = network  # type: ignore[misc]
        super().__init__(config, policy=policy, out=out, resume=resume, every=every)

    def _check_network(self) -> None:
        if "network" not in vars(self):
            super()._check_network()
        elif self.policy is not None and type(self.policy) is not self.network:
            raise AgentError(f"policy must be a {self.network.__name__}, not {described(self.policy)}.")

    def new_run(self, evaluators: Sequence[OneShotEvaluator], seed: int) -> EgrlRun:
        """Return a run on machines with equally many levels; fitness is the mean reward over the programs.

        Raises:
            AgentError: if the machines or the given policy do not fit together.
        """
        levels = {evaluator.env.accelerator.num_levels for evaluator in evaluators}
        if len(levels) > 1:
            raise AgentError(f"The machines have {sorted(levels)} memory levels; train on machines with equally many.")
        if self.policy is not None and self.policy.levels not in levels:
            raise AgentError(
                f"The policy is for {self.policy.levels} memory levels, the machine has {levels.pop()}; "
                "pass a policy that was trained on such a machine."
            )
        return EgrlRun(self.config, self.network, evaluators, self.policy, seed)
