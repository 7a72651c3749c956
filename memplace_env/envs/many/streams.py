"""A random stream for each environment of a vector, as if each were an environment of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from numpy.typing import NDArray

from memplace_env.envs.many.draws import Draws
from memplace_env.envs.many.setting import Setting


class Streams:
    """Draws of `count` environments, each from its own generator.

    Generators are seeded as those of Gymnasium's environments: by the seed of a reset, else with entropy of the system
    when they first draw.
    """

    def __init__(self, draws: Draws, count: int) -> None:
        self._draws = draws
        self._generators: list[np.random.Generator | None] = [None] * count
        self._options: Mapping[str, Any] = {}

    def seed(self, seeds: list[int | None], which: NDArray[np.bool_], options: Mapping[str, Any]) -> None:
        """Seed the generators of the environments `which` where there is a seed; the next draw obeys the options."""
        self._options = options
        for index in np.flatnonzero(which).tolist():
            if seeds[index] is not None:
                self._generators[index] = seeding.np_random(seeds[index])[0]

    def draw(self, which: NDArray[np.bool_]) -> dict[int, Setting]:
        """Return a setting for each environment of bool[count], by index."""
        options, self._options = self._options, {}
        return {index: self._draws.draw(self._generator(index), options) for index in np.flatnonzero(which).tolist()}

    def _generator(self, index: int) -> np.random.Generator:
        generator = self._generators[index]
        if generator is None:
            generator = self._generators[index] = seeding.np_random()[0]
        return generator
