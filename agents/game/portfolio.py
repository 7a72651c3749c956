"""Several solvers in turn, the best plan of all: mallocMuZero's "Prod", which is never worse than XLA's solver."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agents.base import Agent
from agents.evaluator import Evaluator, GameEvaluator
from agents.game.beam_search import BeamSearch
from agents.game.greedy_player import GreedyPlayer
from agents.game.local_search import GameLocalSearch
from agents.xla_msa import PUBLIC_SETS, XlaMsa
from memplace_env.errors import AgentError
from memplace_env.registration import Formulation


class Stage(NamedTuple):
    """One solver, and the share of what is left of budget and time that it may spend."""

    agent: Agent[GameEvaluator] | Agent[Evaluator]
    share: float


class Portfolio(Agent[GameEvaluator]):
    """XLA's memory-space assignment with each public option set, then the searches, within one budget.

    What a solver leaves of its share goes to those after it. An interrupt (Ctrl-C, or a KeyboardInterrupt from the
    callback) ends the search with the best plan so far.

    Args:
        policy: file of a network of `MuZero`; half of what is left after the beam then goes to MuZero.
        beam_share: of what is left after the plans that cost next to nothing; the rest is annealing. Half, as each
            beats the other on some games (docs/game.md); the beam takes less where its passes end early.
        stages: other solvers than these; the first comes first.

    Raises:
        AgentError: if a share is none, or the policy cannot be read.
    """

    name = "portfolio"
    formulations = (Formulation.GAME,)
    anytime = True

    def __init__(
        self,
        policy: str | Path | None = None,
        *,
        beam_share: float = 0.5,
        stages: Sequence[Stage] | None = None,
    ) -> None:
        self._stages = [*stages] if stages is not None else _default_stages(policy, beam_share)
        for stage in self._stages:
            if not 0 < stage.share <= 1:
                raise AgentError(
                    f"{stage.agent.name}'s share of {stage.share} makes no sense; pass more than 0, up to 1."
                )

    def run(self, evaluator: GameEvaluator, seed: int) -> None:
        """Let each stage spend its share; what it finds is kept at once, so that nothing is lost if it is stopped."""
        with suppress(KeyboardInterrupt):
            for stage in self._stages:
                if evaluator.remaining <= 0:
                    break
                stage.agent.run(evaluator.part(stage.share), seed)


def _default_stages(policy: str | Path | None, beam_share: float) -> list[Stage]:
    stages = [
        *(Stage(XlaMsa(each.options), 1.0) for each in PUBLIC_SETS),
        Stage(GreedyPlayer(), 1.0),
        Stage(BeamSearch(), beam_share),
        Stage(GameLocalSearch(), 1.0),
    ]
    if policy is not None:
        from agents.muzero import MuZero

        stages.insert(-1, Stage(MuZero(policy=policy), 0.5))
    return stages
