"""MuZero's three functions (representation, dynamics, prediction) and its categorical numbers, in torch."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from agents.muzero.free_game import BEFORE_LOOKAHEAD, FLAT, Seen
from memplace_env.envs.malloc_game.state import ACTIONS

EPSILON = 0.001
"""Of the value transform (MuZero)."""


def squash(x: Tensor) -> Tensor:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x (Pohlen et al., arXiv 1805.11593; MuZero, appendix F)."""
    return x.sign() * ((x.abs() + 1).sqrt() - 1) + EPSILON * x


def unsquash(y: Tensor) -> Tensor:
    """The inverse of `squash`."""
    root = ((1 + 4 * EPSILON * (y.abs() + 1 + EPSILON)).sqrt() - 1) / (2 * EPSILON)
    return y.sign() * (root.square() - 1)


class Support:
    """Numbers as distributions over bins that are evenly spaced in h(x) (MuZero, appendix F).

    Values here are points, see `FreeGame`: most games differ by a few, the worst by a hundred. h puts bins a point
    apart where it matters, near the greedy player's result. Unlike in MuZero a distribution means its mean of x, not
    of h(x), so that nothing is lost between two bins and no mean is biased; our choice.

    Args:
        bins: odd, so that 0 has a bin of its own.
        reach: numbers beyond -reach..reach are cut off.
    """

    def __init__(self, bins: int, reach: float) -> None:
        self.bins = bins
        edge = squash(torch.tensor(float(reach)))
        self._places = unsquash(torch.linspace(-1, 1, bins) * edge)

    def encode(self, x: Tensor) -> Tensor:
        """Chances float32[..., bins] of the two bins next to each number."""
        x = x.clamp(self._places[0], self._places[-1])
        low = (torch.searchsorted(self._places, x.contiguous(), right=True) - 1).clamp(0, self.bins - 2)
        share = ((x - self._places[low]) / (self._places[low + 1] - self._places[low]))[..., None]
        return (1 - share) * one_hot(low, self.bins) + share * one_hot(low + 1, self.bins)

    def decode(self, logits: Tensor) -> Tensor:
        """Numbers float32[...] that distributions mean, from their logits [..., bins]."""
        return logits.softmax(-1) @ self._places


class Said(NamedTuple):
    """Of B latent states: policy logits float32[B, 3], value logits float32[B, bins]."""

    policy: Tensor
    value: Tensor


class MuZeroNetwork(nn.Module):
    """Plays any game on any machine, as observations have one shape. Layers and sizes are our choice.

    Dynamics and prediction, which each simulation calls, are two-layer perceptrons; the representation, called once
    for each decision, has two convolutions over the profile as well.

    Args:
        latent, hidden: widths.
        bins, reach: of rewards and values, see `Support`.
        lookahead: whether to look at the coming decisions.
    """

    def __init__(
        self, latent: int = 64, hidden: int = 128, bins: int = 61, reach: float = 200.0, lookahead: bool = True
    ) -> None:
        super().__init__()
        self.options: dict[str, Any] = {
            "latent": latent,
            "hidden": hidden,
            "bins": bins,
            "reach": reach,
            "lookahead": lookahead,
        }
        self.support = Support(bins, reach)
        self._seen = FLAT if lookahead else BEFORE_LOOKAHEAD
        self.profile = nn.Sequential(
            nn.Conv2d(2, 8, 4, stride=4), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten()
        )
        self.draw = nn.Linear(16 * 3 * 3, hidden)
        self.rest = nn.Linear(self._seen, hidden)
        self.join = nn.Sequential(nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, latent))
        self.norm = nn.LayerNorm(latent)
        self.move = nn.Embedding(len(ACTIONS), hidden)
        self.state = nn.Linear(latent, hidden)
        self.change = nn.Linear(hidden, latent + bins)
        self.trunk = nn.Linear(latent, hidden)
        self.heads = nn.Linear(hidden, len(ACTIONS) + bins)
        with torch.no_grad():
            for weights in (self.heads.weight, self.heads.bias, self.change.weight[latent:], self.change.bias[latent:]):
                weights.zero_()

    def represent(self, profile: Tensor, flat: Tensor) -> Tensor:
        """Latent states float32[B, latent] of what is seen, see `Seen`."""
        drawn = self.draw(self.profile(profile.float() / 255))
        latent: Tensor = self.norm(self.join(drawn + self.rest(flat[:, : self._seen].float())))
        return latent

    def advance(self, latent: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Next latent states, and the logits float32[B, bins] of the rewards of actions int64[B]."""
        both = self.change(torch.relu(self.state(latent) + self.move(actions)))
        width = latent.shape[1]
        return self.norm(latent + both[:, :width]), both[:, width:]

    def predict(self, latent: Tensor) -> Said:
        """Policy and value."""
        both = self.heads(torch.relu(self.trunk(latent)))
        return Said(both[:, : len(ACTIONS)], both[:, len(ACTIONS) :])

    def look(self, seen: Seen) -> Tensor:
        """`represent` for arrays."""
        return self.represent(torch.from_numpy(seen.profile), torch.from_numpy(seen.flat))
