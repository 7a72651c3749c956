"""Distributions over settings: how the environments of many programs draw what an episode plays.

A split is drawn from in four steps, each uniform over what is left: a group of program families (with one backbone,
blocks or tables), one of its programs, one of the chips that it was measured on, one of its settings there. So a group
with many programs counts no more than one with a single program, and a program no more for having many settings.

The groups of a split are those of `splits.group_split`. Its chips are those of its own split and of the splits before
it, by `splits.chip_split`: training knows three product lines, validation one more, and the test all that ids were
chosen on, and no program of validation or test shares its group with one of training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np

from memplace_env._lib.errors import EnvError
from memplace_env._lib.foreign import described, shown
from memplace_env.envs.many.setting import FIELDS, Setting, known_settings
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import SPLITS, Split, chip_split, group_of, group_split
from memplace_env.machine.accelerator import STREAMED, accelerator_names, is_shipped, load_accelerator
from memplace_env.placement.synthetic import TOPOLOGIES

SYNTHETIC: Final = "synthetic"
"""The distribution that has no end, beside the splits."""
LEAST_OPS, MOST_OPS = 8, 128
"""Ops of synthetic programs; our choice: games of 20 to 500 decisions."""
LEAST_HOT, MOST_HOT = 0.3, 0.9
"""Share of their ops whose tensors are planted in fast levels; our choice."""


@runtime_checkable
class Draws(Protocol):
    """A distribution over settings: the argument `programs` of games and steps."""

    @property
    def first(self) -> Setting:
        """The setting before the first `reset`, the same each time."""

    @property
    def planted(self) -> bool:
        """True if optima are planted in the programs; infos then name them."""

    @property
    def summary(self) -> str:
        """Numbers of what there is to draw, in one line."""

    def draw(self, rng: np.random.Generator, options: Mapping[str, Any]) -> Setting:
        """Return a setting that agrees with `options` of `reset`; see `SplitDraws` and `SyntheticDraws`."""


class SplitDraws:
    """The distribution of a split over the settings of a formulation.

    Attributes:
        settings: all settings of the split, in the order of the file.
        weights: float64[n], the probability of each.
    """

    planted = False

    def __init__(self, formulation: Formulation, split: Split) -> None:
        chips = [chip for chip in accelerator_names() if SPLITS.index(chip_split(chip)) <= SPLITS.index(split)]
        self.settings = tuple(
            setting
            for setting in known_settings(formulation)
            if group_split(_group(setting)) == split and setting.accelerator in chips
        )
        self.weights = _hierarchical(self.settings, _group, lambda one: one.program, lambda one: one.accelerator)
        self._home = formulation.traits.accelerator

    @property
    def first(self) -> Setting:
        """The first setting of the file."""
        return self.settings[0]

    @property
    def programs(self) -> frozenset[str]:
        """Names of the programs."""
        return frozenset(setting.program for setting in self.settings)

    @property
    def groups(self) -> frozenset[str]:
        """Names of their groups."""
        return frozenset(map(_group, self.settings))

    @property
    def chips(self) -> frozenset[str]:
        """Names of the chips."""
        return frozenset(setting.accelerator for setting in self.settings)

    @property
    def summary(self) -> str:
        """Numbers of programs, chips and settings."""
        return f"draws from {len(self.programs)} programs, {len(self.chips)} chips, {len(self.settings)} settings"

    def draw(self, rng: np.random.Generator, options: Mapping[str, Any]) -> Setting:
        """Return a setting: one of those of the split that agree with the options, else what the options describe.

        Args:
            rng: gives one number, if a setting of the split is drawn.
            options: parts of a setting by name; None and what is left out agree with everything. What no setting of the
                split agrees with is taken at its defaults, as `gym.make` does, and needs a "program".

        Raises:
            EnvError: if options have wrong types, or no program although nothing of the split agrees with them.
        """
        given = [field for field in FIELDS if options.get(field) is not None]
        setting = Setting.of(options, chip=self._home)
        weights = self.weights
        if given:
            agrees = [all(getattr(one, key) == getattr(setting, key) for key in given) for one in self.settings]
            weights = np.where(agrees, weights, 0.0)
        if weights.any():
            return self.settings[rng.choice(len(weights), p=weights / weights.sum())]
        if not setting.program:
            raise EnvError(
                f"No program of this split agrees with the options {described(dict(options))}; name a 'program'."
            )
        return setting


class SyntheticDraws:
    """Endless programs with a planted optimum, see `placement.synthetic.planted`.

    A chip, uniform over those of the splits (of the game on their streamed copies); a topology, uniform; the number of
    ops, log-uniform in 8..128, or up to where the backing memory is sure to hold the program; the share of hot ops,
    uniform in [0.3, 0.9]; and a seed below 2**32.
    """

    planted = True

    def __init__(self, formulation: Formulation) -> None:
        known = {setting.accelerator.removesuffix(STREAMED) for setting in known_settings(Formulation.ONE_SHOT)}
        chips = [load_accelerator(name) for name in accelerator_names() if name in known]
        self._game = formulation is Formulation.GAME
        self._chips = tuple(
            (chip.streamed() if self._game else chip).name for chip in chips if not self._game or chip.num_levels == 2
        )

    @property
    def first(self) -> Setting:
        """A chain on the first chip."""
        return Setting(f"{_PREFIX}chain?ops=8&seed=0&hot=0.9&accelerator={self._chips[0]}", self._chips[0])

    @property
    def summary(self) -> str:
        """Number of chips."""
        return f"draws endless programs with a planted optimum, {len(self._chips)} chips"

    def draw(self, rng: np.random.Generator, options: Mapping[str, Any]) -> Setting:
        """Return a drawn setting, on the chip of the options if they name one; or the program that they name.

        Raises:
            EnvError: if options have wrong types, or a chip that is not shipped.
            AcceleratorError: if there is no chip with that name.
        """
        setting = Setting.of(options, chip=str(rng.choice(self._chips)))
        if setting.program:
            return setting
        chip = load_accelerator(setting.accelerator)
        if not is_shipped(setting.accelerator):
            raise EnvError(f"Synthetic programs are planted on shipped chips, not {shown(setting.accelerator)}.")
        chip = chip.streamed() if self._game else chip
        levels, setting = chip.levels, setting._replace(accelerator=chip.name)
        # A tensor is at most as large as the fastest level, and eight results are more than are alive at once.
        most = min(MOST_OPS, levels[-1].capacity_bytes // levels[0].capacity_bytes - 8)
        topology = str(rng.choice(list(TOPOLOGIES)))
        ops = int(np.exp(rng.uniform(np.log(LEAST_OPS), np.log(most + 1))))
        hot, seed = round(rng.uniform(LEAST_HOT, MOST_HOT), 2), int(rng.integers(2**32))
        text = f"{_PREFIX}{topology}?ops={ops}&seed={seed}&hot={hot:g}&accelerator={setting.accelerator}"
        return setting._replace(program=text)


def draws_of(formulation: Formulation, programs: Any) -> Draws:
    """Return the distribution with that name, shared by all environments; a distribution is returned as it is.

    Raises:
        EnvError: if there is none.
    """
    if isinstance(programs, Draws):
        return programs
    if not isinstance(programs, str) or programs not in (*SPLITS, SYNTHETIC):
        names = ", ".join([*SPLITS, SYNTHETIC])
        raise EnvError(f"programs must be one of {names}, or what `Draws` describes, not {described(programs)}.")
    return _made(formulation, programs)


@cache
def _made(formulation: Formulation, name: str) -> Draws:
    return SyntheticDraws(formulation) if name == SYNTHETIC else SplitDraws(formulation, Split(name))


_PREFIX: Final = "synthetic:"


def _group(setting: Setting) -> str:
    return group_of(setting.program, {})


def _hierarchical(settings: tuple[Setting, ...], *keys: Callable[[Setting], str]) -> np.ndarray:
    """Return float64[n], probabilities when each key in turn is drawn uniformly, then one of what agrees with all."""
    if not keys:
        return np.full(len(settings), 1 / len(settings))
    values = [keys[0](setting) for setting in settings]
    weights = np.empty(len(settings))
    for value in set(values):
        members = [index for index, other in enumerate(values) if other == value]
        weights[members] = _hierarchical(tuple(settings[index] for index in members), *keys[1:])
    return weights / len(set(values))
