"""Every constant of MuZero for mallocGame in one place."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Literal

from memplace_env._lib.errors import AgentError

MODELS = ("learned", "simulator")


@dataclass(frozen=True)
class MuZeroConfig:
    """Settings of `MuZero`; the defaults are the best we found.

    mallocMuZero's are not public. "MuZero" marks constants of the MuZero paper and the pseudocode published
    with it, "Gumbel" those of the Gumbel MuZero paper; all others are our choice, from trials on AlexNet and ResNet50.

    Attributes:
        model: model of the search: "learned", MuZero's latent one, or "simulator", the true rules with policy and
            values from the network (as in AlphaZero), which cost some ten times as much a game.
        games: games side by side in each round of self-play.
        simulations: simulations for each decision (Gumbel: few suffice).
        c_visit, c_scale: sigma(q) = (c_visit + most visits) x c_scale x q in the search (Gumbel: 50, and 0.1 with q
            brought into [0, 1] node by node). Ours takes q in points, see `FreeGame`, as it comes: between actions
            that hardly differ, as most do here, normalised q is nothing but the network's error.
        noise: scale of the Gumbel noise, from 0 in the first game of a round to this in the last (Gumbel: 1 in all).
        deviations: share of the games that follow the best game so far up to a random decision, play another action
            there, and go on with the search; needs `demonstrations`. Without them the learned model does not leave the
            greedy player's game on ResNet50.
        latent: width of the latent states.
        hidden: width of all hidden layers.
        bins: bins of the categorical rewards and values (MuZero: 601 for Atari).
        reach: the bins cover -reach..reach, in points.
        lookahead: whether the network sees the coming decisions.
        unroll: steps that the model is unrolled for in training (MuZero: 5); a simulator needs none.
        td_steps: decisions until a value target bootstraps from the search's value; 0 for full returns (MuZero: 10
            for Atari, full for board games).
        replay: decisions remembered, of 3 kB each.
        priority: exponent of the error of the value that draws a position for training; 0 draws uniformly (MuZero: 1
            for Atari, 0 for board games).
        correction: exponent of the importance weights (MuZero: 1).
        reanalyse: share of training positions whose policy target and value are computed anew by a search with the
            current network; needs the learned model (MuZero: 0, or 0.8 in its Reanalyze variant).
        demonstrations: the greedy player's game is played first, and the best game so far is always trained on, with
            the actions played as policy targets (self-imitation).
        demonstrated: share of training positions from that game.
        batch: positions for each gradient step (MuZero: 1024 for Atari, 2048 for board games).
        reuse: how often each decision of a round is trained on, on average.
        most_steps: most gradient steps of a round.
        learning_rate: learning rate of Adam.
        weight_decay: (MuZero: 1e-4).
        value_weight: weight of the value's loss (MuZero: 0.25 for Atari).
        greedy_every: rounds between games of the bare policy, without search.

    Raises:
        AgentError: if a setting is out of range; it names the field.
    """

    model: Literal["learned", "simulator"] = "learned"
    games: int = 128
    simulations: int = 16
    c_visit: float = 50.0
    c_scale: float = 0.01
    noise: float = 1.0
    deviations: float = 0.9
    latent: int = 64
    hidden: int = 128
    bins: int = 61
    reach: float = 200.0
    lookahead: bool = True
    unroll: int = 5
    td_steps: int = 0
    replay: int = 60_000
    priority: float = 0.5
    correction: float = 1.0
    reanalyse: float = 0.0
    demonstrations: bool = True
    demonstrated: float = 0.25
    batch: int = 128
    reuse: float = 2.0
    most_steps: int = 100
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    value_weight: float = 0.25
    greedy_every: int = 5

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise AgentError(f"MuZeroConfig.model must be one of {', '.join(MODELS)}, not {self.model!r}.")
        for name in ("games", "simulations", "latent", "hidden", "replay", "batch", "most_steps", "greedy_every"):
            self._require(name, getattr(self, name) >= 1, "at least 1")
        for name in ("c_visit", "c_scale", "noise", "unroll", "td_steps", "priority", "correction", "weight_decay"):
            self._require(name, getattr(self, name) >= 0, "at least 0")
        for name in ("reach", "reuse", "learning_rate", "value_weight"):
            self._require(name, getattr(self, name) > 0, "above 0")
        for name in ("reanalyse", "demonstrated", "deviations"):
            self._require(name, 0 <= getattr(self, name) <= 1, "from 0 to 1")
        self._require("bins", self.bins >= 3 and self.bins % 2 == 1, "an odd number of at least 3")
        if self.reanalyse and self.model != "learned":
            raise AgentError("MuZeroConfig.reanalyse must be 0 for a simulator: it searches in the learned model.")

    def _require(self, name: str, in_range: bool, limits: str) -> None:
        value = getattr(self, name)
        if not in_range or not isfinite(value):
            raise AgentError(f"MuZeroConfig.{name} must be {limits} and finite, not {value}.")


CONFIGS = {
    "default": MuZeroConfig(),
    "true-rules": MuZeroConfig(model="simulator", games=32, c_scale=0.02, deviations=0.0),
    "reanalyse": MuZeroConfig(reanalyse=0.5),
}
"""Settings by name, for the command line."""
