"""The agent of XLA's memory-space assignment."""

from __future__ import annotations

from memplace_agents.base import Agent
from memplace_agents.search.evaluator import Evaluator
from memplace_agents.xla_msa.assignment import default_plan
from memplace_agents.xla_msa.msa_options import PUBLIC_SETS, MsaOptions
from memplace_env._lib.errors import AgentError
from memplace_env._lib.hints import instead
from memplace_env.envs.registration import Formulation


class XlaMsa(Agent[Evaluator]):
    """Runs XLA's memory-space assignment: one pass of greedy placement, buffer by buffer, see `assign`.

    Solves environments of either formulation, one-shot and mallocGame, as long as the machine has two levels.

    Args:
        options: the options, or the name of a public set; `MsaOptions.open_source()` if None.

    Raises:
        AgentError: if there is no public set of that name.
    """

    formulations = (Formulation.ONE_SHOT, Formulation.GAME)  # more than those it is listed for
    budgeted = False
    deterministic = True

    def __init__(self, options: MsaOptions | str | None = None) -> None:
        if isinstance(options, str):
            sets = {public.name: public.options for public in PUBLIC_SETS}
            if options not in sets:
                raise AgentError(f"There is no public option set {options!r}; {instead(options, sets)}")
            options = sets[options]
        self.options = options or MsaOptions.open_source()

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Offer one plan, in well under a second; nothing is random."""
        evaluator.offer(default_plan(evaluator.env.task, self.options))
