"""MuZero as an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agents.evaluator import GameEvaluator
from agents.learning.agent import LearningAgent
from agents.muzero.config import MuZeroConfig
from agents.muzero.networks import MuZeroNetwork
from agents.muzero.run import Run
from memplace_env.registration import Formulation


class MuZero(LearningAgent[GameEvaluator, MuZeroNetwork]):
    """MuZero (Schrittwieser et al., Nature 2020) for mallocGame, after mallocMuZero (Wang et al., arXiv 2305.07440).

    Games are played by Gumbel MuZero's search, by default in a learned model, by choice in the true rules, and the
    network learns from them; see `MuZeroConfig` for the options, and agents/muzero/README.md for what they are worth.
    Every game played counts, and the best is the solution; as the greedy player's game is played first, it is never
    worse than that. One network learns several programs at once, on any machines.

    Args:
        config: every constant; default: the best we found.
        policy: a network, or a file of one, to start from; it may come from another program. Its layers count, not
            those of the config.
        out: folder for checkpoint.pt, policy.pt and TensorBoard's curves; None keeps nothing.
        resume: go on from the checkpoint in `out`, if there is one, until `budget` is spent.
        every: rounds between checkpoints, which hold the replay: up to 3 kB for each of its decisions.

    Raises:
        AgentError: if the policy cannot be read, or there is no folder to resume from.
    """

    name = "muzero"
    formulations = (Formulation.GAME,)
    network = MuZeroNetwork

    def __init__(
        self,
        config: MuZeroConfig | None = None,
        *,
        policy: MuZeroNetwork | str | Path | None = None,
        out: str | Path | None = None,
        resume: bool = False,
        every: int = 20,
    ) -> None:
        super().__init__(config or MuZeroConfig(), policy, out, resume, every)

    def new_run(self, evaluators: Sequence[GameEvaluator], seed: int) -> Run:
        """Self-play and training in turn."""
        return Run(self.config, evaluators, self.policy, seed)
