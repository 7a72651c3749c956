"""Settings of MuZero for mallocGame; constants stand where they are used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from memplace_agents.learning.settings import check_settings
from memplace_env._lib.errors import AgentError

MODELS = ("rules", "learned")


@dataclass(frozen=True)
class MuZeroConfig:
    """Settings of `MuZero`; the defaults are the best we found.

    mallocMuZero's are not public. "MuZero" marks constants of the MuZero paper and the pseudocode published with it;
    all others are our choice, from trials on BERT, GPT2, DenseNet121-edge-tpu and strassen2.

    A run on one program begins with searched games, samples whole games, and ends with annealing.

    Attributes:
        model: model of the search: "rules", the true ones with policy and values from the network (as in AlphaZero), or
            "learned", MuZero's latent one.
        network: whether there is one; without it the search takes all actions as alike and all values as 0.
        first_games: games that a search plays before all else, each with another lean to the best rule.
        first_simulations: simulations for each decision of these, in the true rules and without noise.
        games: games side by side.
        decisions: decisions of each game in a round.
        simulations: simulations for each decision (Gumbel MuZero: few suffice); with 3 every action is tried, with 0
            the policy is sampled without a search.
        hidden: width of the network.
        batch: decisions for each gradient step (MuZero: 1024 for Atari, 2048 for board games).
        learning_rate: learning rate of Adam.
        sampling: fraction of the work, between first games and annealing, that samples whole games as `PlanGradient`
            does; the rest is the tree's. 0 for none, as with several programs.
        annealing: fraction of the budget that anneals the best game at the end; 0 for none.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """

    model: Literal["rules", "learned"] = "rules"
    network: bool = True
    first_games: int = 4
    first_simulations: int = 64
    games: int = 32
    decisions: int = 64
    simulations: int = 3
    hidden: int = 128
    batch: int = 1024
    learning_rate: float = 1e-3
    sampling: float = 0.9
    annealing: float = 0.1

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise AgentError(f"MuZeroConfig.model must be one of {', '.join(MODELS)}, not {self.model!r}.")
        counts = "first_simulations", "games", "decisions", "hidden", "batch"
        check_settings(self, at_least_one=counts, shares=("sampling", "annealing"))
        if self.model == "learned" and not self.network:
            raise AgentError("MuZeroConfig.network must be True where MuZeroConfig.model is 'learned'.")
        if self.learning_rate == 0:
            raise AgentError("MuZeroConfig.learning_rate must be above 0.")


CONFIGS = {
    "default": MuZeroConfig(),
    "learned": MuZeroConfig("learned", first_games=0, games=64, decisions=128, simulations=16, sampling=0, annealing=0),
    "no-search": MuZeroConfig(first_games=0, simulations=0),
    "no-network": MuZeroConfig(network=False),
    "no-annealing": MuZeroConfig(annealing=0),
    "no-sampling": MuZeroConfig(sampling=0),
}
"""Settings by name, for the command line; "learned" is the published form, and others leave out a part."""
