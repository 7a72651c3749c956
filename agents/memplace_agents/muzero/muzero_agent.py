"""MuZero as an agent."""

from __future__ import annotations

from collections.abc import Sequence

from memplace_agents.learning.learning_agent import LearningAgent
from memplace_agents.muzero.muzero_config import MuZeroConfig
from memplace_agents.muzero.muzero_run import MuZeroRun
from memplace_agents.muzero.networks import MuZeroNetwork
from memplace_agents.search.evaluator import GameEvaluator


class MuZero(LearningAgent[GameEvaluator, MuZeroNetwork]):
    """MuZero (Schrittwieser et al., Nature 2020) for mallocGame, after mallocMuZero (Wang et al., arXiv 2305.07440).

    Games are played by Gumbel MuZero's search, by default in a learned model, optionally in the true rules, and the
    network learns from them; see `MuZeroConfig` for the options. Every game played counts, and the best is the
    solution; by default the greedy player's game is played first, so that it is never worse than that. One network
    learns several programs at once, on any machines.

    The config is a `MuZeroConfig`. The policy is a `MuZeroNetwork`, which may come from another program; its layers
    replace those of the config. Checkpoints hold the replay: up to 3 kB for each of its decisions. All other arguments
    are those of `LearningAgent`.
    """

    settings = MuZeroConfig
    network = MuZeroNetwork
    rounds_between_checkpoints = 20

    def new_run(self, evaluators: Sequence[GameEvaluator], seed: int) -> MuZeroRun:
        """Return a run of self-play and training in turn."""
        return MuZeroRun(self.config, evaluators, self.policy, seed)
