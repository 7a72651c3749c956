"""The agent: one plan, made as XLA would."""

from __future__ import annotations

from agents.base import Agent
from agents.evaluator import Evaluator
from agents.xla_msa.assignment import default_plan
from agents.xla_msa.options import PUBLIC_SETS, MsaOptions
from memplace_env.errors import AgentError
from memplace_env.hints import instead
from memplace_env.registration import Formulation


class XlaMsa(Agent[Evaluator]):
    """XLA's memory-space assignment: one pass of greedy placement, buffer by buffer, see `assign`.

    Solves environments of either formulation, one-shot and mallocGame, as long as the machine has two levels.

    Args:
        options: themselves or the name of a public set; `MsaOptions.open_source()` if None.

    Raises:
        AgentError: if there is no such set.
    """

    name = "xla-msa"
    formulations = (Formulation.ONE_SHOT, Formulation.GAME)
    budgeted = False
    deterministic = True

    def __init__(self, options: MsaOptions | str | None = None) -> None:
        if isinstance(options, str):
            sets = {each.name: each.options for each in PUBLIC_SETS}
            if options not in sets:
                raise AgentError(f"There is no public option set {options!r}; {instead(options, sets)}")
            options = sets[options]
        self.options = options or MsaOptions.open_source()

    def run(self, evaluator: Evaluator, seed: int) -> None:
        """Make one plan, in well under a second; nothing is random."""
        evaluator.offer(default_plan(evaluator.env.task, self.options))
