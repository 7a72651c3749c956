"""EGRL's stateless chromosome: for each decision a prior over the levels and a temperature.

B chromosomes are prior float32[B, S, L] and temperature float32[B, S], where S counts the decisions of an assignment;
decision s of chromosome b is drawn from softmax(prior[b, s] / temperature[b, s]). The temperature is evolved with the
prior, so each decision has its own exploration. The paper's initial values and bounds are not known; these are ours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

Floats = NDArray[np.float32]

_COOLEST, _HOTTEST = 0.1, 3.0
"""Bounds of the temperatures."""
_CHANGES = 2.0
"""Decisions that a chromosome made from an assignment is expected to draw differently."""


def initial(rng: np.random.Generator, count: int, mask: NDArray[np.bool_], lean: float) -> tuple[Floats, Floats]:
    """Return chromosomes with standard normal priors, `lean` added for the backing memory, and temperature 1.

    Args:
        rng: generator of all randomness.
        count: B.
        mask: bool[S, L], levels worth asking for.
        lean: as in `EGRLConfig`.
    """
    prior = rng.standard_normal((count, *mask.shape), dtype=np.float32)
    prior[..., -1] += lean
    return prior, np.ones(prior.shape[:2], dtype=np.float32)


def probabilities(prior: Floats, temperature: Floats, mask: NDArray[np.bool_]) -> Floats:
    """Return the chromosomes' probabilities float32[B, S, L], 0 where the mask forbids."""
    logits: Floats = np.where(mask, prior / temperature[..., None], -np.inf)
    chances: Floats = softmax(logits, axis=-1)
    return chances


def sample(rng: np.random.Generator, chances: Floats) -> NDArray[np.int64]:
    """Draw one assignment int64[B, S] from each row of probabilities float32[B, S, L]."""
    # The level drawn is the number of edges at or below a uniform number; the last edge stands for the sum, about 1.
    edges = chances.cumsum(axis=-1)
    uniform = rng.random((*chances.shape[:-1], 1), dtype=np.float32) * edges[..., -1:]
    assignments: NDArray[np.int64] = (edges[..., :-1] <= uniform).sum(axis=-1)
    return assignments


def from_posterior(chances: Floats) -> tuple[Floats, Floats]:
    """Return chromosomes with probabilities float32[B, S, L]: how a graph policy seeds a chromosome."""
    prior = np.log(np.maximum(chances, np.finfo(np.float32).tiny))
    return prior, np.ones(prior.shape[:-1], dtype=np.float32)


def from_assignments(assignments: NDArray[np.integer], levels: int) -> tuple[Floats, Floats]:
    """Return chromosomes around assignments int[B, S]: each draws about two decisions differently."""
    other = min(_CHANGES / assignments.shape[1], 0.5) / max(levels - 1, 1)
    chances = np.full((*assignments.shape, levels), other, dtype=np.float32)
    np.put_along_axis(chances, assignments[..., None].astype(np.int64), 1 - other * (levels - 1), axis=-1)
    return from_posterior(chances)


def crossover(rng: np.random.Generator, first: Floats, second: Floats) -> Floats:
    """Cross genes [B, S, ...] at a single point: the decisions before a random one are the first parent's."""
    cut = rng.integers(0, first.shape[1] + 1, size=len(first))
    keeps = np.arange(first.shape[1]) < cut[:, None]
    child: Floats = np.where(keeps.reshape(*keeps.shape, *[1] * (first.ndim - 2)), first, second)
    return child


def mutate(rng: np.random.Generator, prior: Floats, temperature: Floats, share: float) -> tuple[Floats, Floats]:
    """Add Gaussian noise to the priors and log-normal noise to the temperatures of a `share` of the decisions.

    Temperatures stay within 0.1 and 3. Priors are normalised, which changes no probability at temperature 1.
    """
    hit = rng.random(temperature.shape) < max(share, _CHANGES / temperature.shape[1])
    moved = prior + rng.standard_normal(prior.shape, dtype=np.float32)
    warmed = temperature * np.exp(0.3 * rng.standard_normal(temperature.shape, dtype=np.float32))
    prior = np.where(hit[..., None], log_softmax(moved, axis=-1), prior)
    return prior, np.where(hit, np.clip(warmed, _COOLEST, _HOTTEST), temperature)
