"""Scores of returns by what is best known of an environment, and the plans that are best known."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, NamedTuple
from zipfile import ZipFile

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike

from memplace_env._lib.errors import EnvError
from memplace_env._lib.hints import nearest
from memplace_env._lib.units import PS
from memplace_env.envs.best_known import PROVEN, Known, known_id, known_results
from memplace_env.envs.registration import formulation_of_id
from memplace_env.placement.memory_plan import MemoryPlan


class BestKnown(NamedTuple):
    """Best known results of an environment, in the unit of its default reward and in seconds.

    Attributes:
        best_return: return of the best known plan.
        reachable_return: return of the best known episode, which may be less, as players choose no addresses; that of
            the best rule where no better one was recorded.
        rule_return: return of the best plan of a rule that does not search.
        random_return: mean return of 100 random assignments, also in steps, or of 100 games of random legal actions.
        latency_s: latency of the best known plan.
        bound_s: lower bound of all plans, which solvers proved; of `-Event` ids the simulator's own, far below.
        proven: whether the two agree to 0.01 %.
    """

    best_return: float
    reachable_return: float
    rule_return: float
    random_return: float
    latency_s: float
    bound_s: float
    proven: bool


def best_known(env_id: str) -> BestKnown:
    """Return the best known results of a registered environment.

    Raises:
        EnvError: if the id is not of this package, draws its programs, or nothing is known of it.
    """
    (row, baseline_ps), formulation = _row(env_id), formulation_of_id(env_id)
    of_best, of_reachable, of_rule = (
        formulation.return_of(latency_ps, baseline_ps)
        for latency_ps in (row.best_ps, row.reachable_ps or row.cheap_ps, row.cheap_ps)
    )
    proven = row.best_ps <= (1 + PROVEN) * row.bound_ps
    seconds = row.best_ps * PS, row.bound_ps * PS
    return BestKnown(of_best, of_reachable, of_rule, row.random_return or 0.0, *seconds, proven)


def normalised_score(env_id: str, episode_return: ArrayLike) -> Any:
    """Return the score of returns of the environment's default reward, float or float64[...]: shares of the best gain.

    1 is the best known plan, more a faster one; 0 is what returns are relative to, native's plan, in games everything
    in the backing memory; below 0 are slower ones. For ids that draw programs 1 is the best cheap plan of each, or the
    planted optimum, as for the Tiny ids.

    Raises:
        EnvError: if the id is not of this package, or nothing is known of it.
    """
    nothing, spec = formulation_of_id(env_id).return_of(1, 1), gym.registry.get(known_id(env_id))
    if spec and "programs" in spec.kwargs:
        nothing, best = 0.0, 100.0
    elif spec and spec.kwargs.get("optimum"):
        best = gym.make(spec).reset()[1]["optimal_return"]
    else:
        best = best_known(env_id).best_return
    return (np.asarray(episode_return, float)[()] - nothing) / (best - nothing)


def best_plan(env_id: str) -> MemoryPlan | None:
    """Return the best known plan of an environment, None where none is kept; in steps that of the map.

    Solvers and searches found it. It is as fast as `best_known` says, or a little slower where a later plan was not
    kept; none is kept of `-Sliced` and `-Compiled` ids.

    Raises:
        EnvError: as `best_known`.
    """
    _row(env_id)
    name = f"{known_id(env_id)}.json"
    with ZipFile(str(files("memplace_env.envs").joinpath("best-plans.zip"))) as archive:
        return MemoryPlan.from_json(archive.read(name).decode()) if name in archive.namelist() else None


def _row(env_id: str) -> tuple[Known, int]:
    """Return what is known of an id, and the latency of its baseline in ps."""
    row = known_results().get(known_id(env_id))
    if row is None or row.baseline_ps is None:
        formulation_of_id(env_id)
        close = None if known_id(env_id) in gym.registry else nearest(known_id(env_id), known_results())
        hint = f"; did you mean {close!r}?" if close else "."
        raise EnvError(
            f"Nothing is known of {env_id}; best plans are known of ids of one program, but for the Tiny ones, whose "
            f"infos have the optimum and of which normalised_score knows it, too{hint}"
        )
    return row, row.baseline_ps
