"""Every constant of MuZero for mallocGame in one place."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from memplace_env._lib.errors import AgentError

MODELS = ("rules", "learned")


@dataclass(frozen=True)
class MuZeroConfig:
    """Settings of `MuZero`; the defaults are the best we found.

    mallocMuZero's are not public. "MuZero" marks constants of the MuZero paper and the pseudocode published with it,
    "Muesli" those of Hessel et al., arXiv 2104.06159; all others are our choice, from trials on BERT, GPT2,
    DenseNet121-edge-tpu and strassen2.

    Attributes:
        model: model of the search: "rules", the true ones with policy and values from the network (as in AlphaZero), or
            "learned", MuZero's latent one.
        games: games side by side.
        decisions: decisions of each game in a round.
        simulations: simulations for each decision (Gumbel MuZero: few suffice); with 3 every action is tried.
        improvement: logits rise by this for an advantage of one standard deviation (Muesli: 1, and cut off at 1).
        outcome: weight of what followed in the game in the advantage of the action that was played; the rest is the
            search's.
        trace: lambda of the returns that values learn and `outcome` is about (MuZero: ten steps for Atari).
        hidden: width of the network.
        unroll: steps that the learned model is unrolled for in training (MuZero: 5).
        epochs: how often each decision of a round is trained on.
        batch: decisions for each gradient step (MuZero: 1024 for Atari, 2048 for board games).
        learning_rate: learning rate of Adam.
        value_weight: weight of the value's loss, and of the learned rewards'.
        demonstrated: weight of the loss that imitates the best game so far.
        deviations: fraction of the games that begin at a random decision of the best game so far.
        annealing: games that are annealed in each round; 0 for none.
        guided: fraction of the annealing's moves that the policy proposes.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """

    model: Literal["rules", "learned"] = "rules"
    games: int = 64
    decisions: int = 128
    simulations: int = 3
    improvement: float = 1.0
    outcome: float = 0.5
    trace: float = 0.95
    hidden: int = 128
    unroll: int = 5
    epochs: int = 4
    batch: int = 1024
    learning_rate: float = 1e-3
    value_weight: float = 0.5
    demonstrated: float = 0.1
    deviations: float = 0.5
    annealing: int = 800
    guided: float = 0.25

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise AgentError(f"MuZeroConfig.model must be one of {', '.join(MODELS)}, not {self.model!r}.")
        for name in ("games", "decisions", "simulations", "hidden", "epochs", "batch"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in ("improvement", "unroll", "demonstrated", "annealing"):
            self._require(name, getattr(self, name) >= 0, "at least 0")
        for name in ("learning_rate", "value_weight"):
            self._require(name, getattr(self, name) > 0, "above 0")
        for name in ("outcome", "trace", "deviations", "guided"):
            self._require(name, 0 <= getattr(self, name) <= 1, "from 0 to 1")

    def _require(self, name: str, in_range: bool, limits: str) -> None:
        value = getattr(self, name)
        if not in_range or not isfinite(value):
            raise AgentError(f"MuZeroConfig.{name} must be {limits} and finite, not {value}.")


CONFIGS = {
    "default": MuZeroConfig(),
    "learned": MuZeroConfig(model="learned", simulations=16, annealing=0),
}
"""Settings by name, for the command line; "learned" is the published form."""
