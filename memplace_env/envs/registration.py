"""Ids of the environments: a table of settings; nothing is built before `gym.make`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from importlib.resources import files
from typing import Any, NamedTuple

import gymnasium as gym

from memplace_env._lib.errors import EnvError
from memplace_env.envs.best_known import known_id, known_results
from memplace_env.program.model_file import as_written

_IDS: dict[str, Any] = json.loads(files("memplace_env.envs").joinpath("ids.json").read_text("utf-8"))

ONE_SHOT: dict[str, dict[str, Any]] = _IDS["one-shot"]
"""Settings of `MemPlace-<name>-v0` by name; the default workload is the one with that name, the default chip nnp-i.
Chosen by the rule of `benchmarks/experiments/suite.py`: programs where search gains something over heuristics
(docs/programs.md).
"""

GAME: dict[str, dict[str, Any]] = _IDS["game"]
"""Settings of `MallocGame-<name>-v0` by name, chosen by the same rule; the default chip is tpu-v4i."""

VARIANTS: dict[str, dict[str, Any]] = _IDS["variants"]
"""Variants by the end of their ids, such as "Sliced": the `settings` that a variant adds, and by formulation to what:
names of registered settings, or settings by name. Chosen by the rules of `sliced_ids.py`, `event.py` and `compiled.py`
in `benchmarks/experiments/`.
"""

DRAWN = ("Train", "Validation", "Test", "Synthetic")
"""Names of ids whose episodes draw a program: `MallocGame-Train-v0` and so on, see `memplace_env.envs.many`."""


class Formulation(StrEnum):
    """Formulation of the placement problem; the value is its name on the command line and in agents.

    | value      | what is decided                             | environment     | played by agents              |
    |------------|---------------------------------------------|-----------------|-------------------------------|
    | `one-shot` | a level for each tensor, all at once        | `OneShotEnv`    | yes                           |
    | `steps`    | the same, entry by entry                    | `StepsEnv`      | by ppo and by `PolicyAgent`   |
    | `game`     | use by use: tensors may move between levels | `MallocGameEnv` | yes                           |
    | `dynamic`  | as in the game, on any chip                 | `OneShotEnv`    | yes, for plans of any kind    |
    """

    ONE_SHOT = "one-shot"
    STEPS = "steps"
    GAME = "game"
    DYNAMIC = "dynamic"

    @property
    def base(self) -> Formulation:
        """The formulation with the same tasks: the game itself, for all others the one-shot one."""
        return self if self is Formulation.GAME else Formulation.ONE_SHOT

    @property
    def traits(self) -> Traits:
        """Its ids, environment, default chip and baseline; those of its base if it has no ids of its own."""
        return _TRAITS.get(self, _TRAITS[self.base])

    def return_of(self, latency: float, baseline: float) -> float:
        """Return the return of a plan, by the default reward: percent saved in games, else the speed-up."""
        return 100 * (1 - latency / baseline) if self.base is Formulation.GAME else baseline / latency


class Traits(NamedTuple):
    """Ids, environment, default chip and baseline of a formulation.

    Attributes:
        prefix: first part of its ids; `<prefix>-v0` is the generic environment.
        home: package of its environment, and the first part of its classes' names.
        settings: settings of the registered workloads, by the name in their ids.
        variants: settings of variants, by the name in their ids, such as "BERT-Sliced".
        accelerator: the default chip, of the registered workloads too.
        baseline: name of the plan that speed-ups are relative to.
        tiny: settings of `<prefix>-Tiny-v0`, which is for debugging: about a dozen decisions and a known optimum.
        drawn: arguments of its environments whose episodes draw a program, but for `programs`; None if it has none.
    """

    prefix: str
    home: tuple[str, str]
    settings: Mapping[str, Mapping[str, Any]]
    variants: Mapping[str, Mapping[str, Any]]
    accelerator: str
    baseline: str
    tiny: Mapping[str, Any]
    drawn: Mapping[str, Any] | None = None

    @property
    def named(self) -> Mapping[str, Mapping[str, Any]]:
        """Settings and variants together."""
        return {**self.settings, **self.variants}

    def env_id(self, workload: str | None = None) -> str:
        """Return the id of a registered workload's environment, or of the generic one."""
        return f"{self.prefix}-{workload}-v0" if workload else f"{self.prefix}-v0"


THRESHOLD = 0.99
"""Share of the best gain that an episode is known to reach, from which an environment counts as solved, where that is
more than half of the way there from the best rule; our choice."""
SOLVED_TINY = {Formulation.ONE_SHOT: 1.225, Formulation.STEPS: 1.225, Formulation.GAME: 21.43}
"""Returns from which the Tiny ids count as solved, just below their optima."""
TINY = {
    Formulation.ONE_SHOT: {"workload": "synthetic:fan-out?ops=6&seed=4", "optimum": True},
    Formulation.STEPS: {"workload": "synthetic:fan-out?ops=6&seed=4", "optimum": True},
    Formulation.GAME: {"workload": "synthetic:fan-out?ops=4&seed=4&hot=1&accelerator=tpu-v4i", "optimum": True},
}
"""Settings of `<prefix>-Tiny-v0`, our choice among planted programs: no rule of the compiler, no option set of XLA and
no greedy player reaches the optimum, and at most one random episode in fifty does.
"""


def _variants(formulation: Formulation, settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        f"{name}-{end}": {"workload": name, **bases[name], **variant["settings"]}
        for end, variant in VARIANTS.items()
        for bases in [variant[formulation] if isinstance(variant[formulation], dict) else settings]
        for name in variant[formulation]
    }


_MAPS = _variants(Formulation.ONE_SHOT, ONE_SHOT)
_TRAITS = {
    Formulation.ONE_SHOT: Traits(
        "MemPlace", ("one_shot", "OneShot"), ONE_SHOT, _MAPS, "nnp-i", "native", TINY[Formulation.ONE_SHOT]
    ),
    Formulation.STEPS: Traits(
        "MemPlaceSteps",
        ("steps", "Steps"),
        ONE_SHOT,
        {name: settings for name, settings in _MAPS.items() if "slices" not in settings},
        "nnp-i",
        "native",
        TINY[Formulation.STEPS],
        {"reward": "gain"},
    ),
    Formulation.GAME: Traits(
        "MallocGame",
        ("malloc_game", "MallocGame"),
        GAME,
        _variants(Formulation.GAME, GAME),
        "tpu-v4i",
        "all in backing memory",
        TINY[Formulation.GAME],
        {"reward": "gain", "skip_forced": True},
    ),
}


def formulation_of_id(env_id: str) -> Formulation:
    """Return the formulation that an environment's id poses.

    Raises:
        EnvError: if it is no id of this package.
    """
    for formulation, traits in _TRAITS.items():
        if env_id.removeprefix("memplace_env:").startswith(f"{traits.prefix}-"):
            return formulation
    raise EnvError(f"{env_id!r} is not an id of this package.")


def register_envs() -> None:
    """Register every environment with Gymnasium; calling it again changes nothing."""
    for formulation, traits in _TRAITS.items():
        _register(traits, None, {})
        _register(traits, "Tiny", traits.tiny, SOLVED_TINY[formulation])
        for workload, settings in traits.named.items():
            chip = settings.get("accelerator", traits.accelerator)
            threshold = _threshold(formulation, traits.env_id(workload))
            _register(traits, workload, {"workload": workload, **as_written(chip), **settings}, threshold)
        for name in DRAWN:
            if traits.drawn is not None:  # 100: as good as the best cheap plans, or as planted optima
                _register(traits, name, {"programs": name.lower(), **traits.drawn}, 100.0)


def _threshold(formulation: Formulation, env_id: str) -> float | None:
    """Return the return from which an environment counts as solved; None where no plan is known.

    Where no episode was recorded that is faster than the rules' plans, it is the best rule's.
    """
    known = known_results().get(known_id(env_id))
    if known is None or known.baseline_ps is None:
        return None
    nothing = formulation.return_of(1, 1)
    most = formulation.return_of(known.reachable_ps or known.cheap_ps, known.baseline_ps)
    rule = formulation.return_of(known.cheap_ps, known.baseline_ps)
    return float(f"{max(nothing + THRESHOLD * (most - nothing), (rule + most) / 2):.9g}")


def _register(
    traits: Traits, workload: str | None, kwargs: Mapping[str, Any], reward_threshold: float | None = None
) -> None:
    env_id, (package, name) = traits.env_id(workload), traits.home
    if env_id in gym.registry:
        return
    home = f"memplace_env.envs.{package}:{name}"
    gym.register(env_id, f"{home}Env", reward_threshold, vector_entry_point=f"{home}VectorEnv", kwargs=dict(kwargs))
