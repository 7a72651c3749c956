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

    Attributes:
        model: model of the search: "rules", the true ones with policy and values from the network (as in AlphaZero), or
            "learned", MuZero's latent one.
        games: games side by side.
        decisions: decisions of each game in a round.
        simulations: simulations for each decision (Gumbel MuZero: few suffice); with 3 every action is tried.
        hidden: width of the network.
        batch: decisions for each gradient step (MuZero: 1024 for Atari, 2048 for board games).
        learning_rate: learning rate of Adam.
        annealing: games that are annealed in each round; 0 for none.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """

    model: Literal["rules", "learned"] = "rules"
    games: int = 64
    decisions: int = 128
    simulations: int = 3
    hidden: int = 128
    batch: int = 1024
    learning_rate: float = 1e-3
    annealing: int = 800

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise AgentError(f"MuZeroConfig.model must be one of {', '.join(MODELS)}, not {self.model!r}.")
        check_settings(self, at_least_one=("games", "decisions", "simulations", "hidden", "batch"))
        if self.learning_rate == 0:
            raise AgentError("MuZeroConfig.learning_rate must be above 0.")


CONFIGS = {
    "default": MuZeroConfig(),
    "learned": MuZeroConfig(model="learned", simulations=16, annealing=0),
}
"""Settings by name, for the command line; "learned" is the published form."""
