"""Several solvers in turn, the best plan of all: mallocMuZero's "Prod", which is never worse than XLA's solver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.base import Agent
from agents.evaluator import GameEvaluator
from agents.game.beam_search import BeamSearch
from agents.game.greedy_player import GreedyPlayer
from agents.game.local_search import GameLocalSearch
from agents.solution import Verdict
from agents.stages import PROOF_SECONDS, Stage, check_shares, run_stages
from agents.xla_msa import PUBLIC_SETS, XlaMsa
from memplace_env.registration import Formulation

EXACT_SHARE = 0.5
"""Of what the plans that cost next to nothing leave."""


class Portfolio(Agent[GameEvaluator]):
    """XLA's memory-space assignment with each public option set, greedy play, the exact agent, then the searches.

    Each begins with the best plan before it, and nobody searches once that is proven optimal. What a solver leaves of
    its share goes to those after it. An interrupt (Ctrl-C, or a KeyboardInterrupt from the callback) ends the search
    with the best plan so far.

    Args:
        policy: file of a network of `MuZero`; half of what is left after the beam then goes to MuZero.
        beam_share: of what the exact agent leaves, which takes up to half of it all; the rest is annealing. Half, as
            each beats the other on some games (docs/game.md); the beam takes less where its passes end early.
        stages: other solvers than these; the first comes first.

    Raises:
        AgentError: if a share is none, or the policy cannot be read.
    """

    name = "portfolio"
    formulations = (Formulation.GAME,)

    def __init__(
        self,
        policy: str | Path | None = None,
        *,
        beam_share: float = 0.5,
        stages: Sequence[Stage] | None = None,
    ) -> None:
        self._stages = [*stages] if stages is not None else _default_stages(policy, beam_share)
        check_shares(self._stages)

    def run(self, evaluator: GameEvaluator, seed: int) -> Verdict:
        """Let each stage spend its share, see `run_stages`."""
        return run_stages(evaluator, self._stages, seed)


def _default_stages(policy: str | Path | None, beam_share: float) -> list[Stage]:
    from agents.exact import Exact

    stages = [
        *(Stage(XlaMsa(each.options), name=f"xla-msa {each.name}") for each in PUBLIC_SETS),
        Stage(GreedyPlayer()),
        Stage(Exact(cheap=False), EXACT_SHARE, PROOF_SECONDS, proof=True),
        Stage(BeamSearch(), beam_share),
        Stage(GameLocalSearch()),
    ]
    if policy is not None:
        from agents.muzero import MuZero

        stages.insert(-1, Stage(MuZero(policy=policy), 0.5))
    return stages
