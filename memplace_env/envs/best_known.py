"""Best known plans' latencies and proven bounds of registered environments, kept in `best-known.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Final

from memplace_env._lib.errors import EnvError

PROVEN: Final = 1e-4
"""Most by which a proven plan is above its bound, as a fraction; our choice."""


@dataclass(frozen=True)
class Known:
    """Best known results of an instance, in ps.

    Attributes:
        cheap_ps: latency of the best plan of a rule that does not search.
        best_ps: latency of the best known plan.
        bound_ps: proven lower bound; the best known plan is optimal where the two agree to 0.01 %.
        reachable_ps: latency of the best plan that is known to end an episode, at least `best_ps`: players of games and
            maps choose no addresses or windows, so plans of solvers may be out of their reach. None where no episode
            was recorded that is faster than the rules' plans.
        baseline_ps: latency of what returns are relative to: of native's plan; in games of everything in the backing
            memory. None on drawn machines, as what follows.
        random_return: mean return of 100 random assignments, or of 100 games of random legal actions.
    """

    cheap_ps: int
    best_ps: int
    bound_ps: int
    reachable_ps: int | None = None
    baseline_ps: int | None = None
    random_return: float | None = None


@lru_cache
def known_results() -> Mapping[str, Known]:
    """Return the best known results of each instance by id.

    Raises:
        EnvError: if a bound is above the best plan, so that it is false.
    """
    rows = tomllib.loads(files("memplace_env.envs").joinpath("best-known.toml").read_text("utf-8"))
    known = {env_id: Known(**fields) for env_id, fields in rows.items()}
    for env_id, row in known.items():
        if row.bound_ps > row.best_ps:
            raise EnvError(
                f"best-known.toml: the bound of {env_id}, {row.bound_ps} ps, is above its best plan, {row.best_ps} ps; "
                "remove that row's bound."
            )
    return known


def known_id(env_id: str) -> str:
    """Return the id that an id's best known results are kept under: without its module, in steps that of the map."""
    return env_id.removeprefix("memplace_env:").replace("MemPlaceSteps-", "MemPlace-")
