"""Agents as third parties write them, and how they get installed; this module stands for their package."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import numpy as np
import pytest

from memplace_agents.search.agent import Agent
from memplace_env._lib import plugins
from memplace_env.envs.registration import Formulation


class Theirs(Agent):
    """Random maps, sixteen at a time.

    Nothing of this paragraph belongs to the summary.
    """

    name = "theirs"
    formulations = (Formulation.ONE_SHOT,)

    def run(self, evaluator, seed):
        problem, rng = evaluator.env.problem, np.random.default_rng(seed)
        while evaluator.remaining > 0:
            evaluator(rng.integers(problem.accelerator.num_levels, size=(16, problem.num_decisions)))


class Player(Agent):
    """Random games."""

    name = "player"
    formulations = ("game",)

    def __init__(self, games: int = 8) -> None:
        self.games = games

    def run(self, evaluator, seed):
        while evaluator.remaining > 0:
            states = evaluator.env.problem.new_states(min(self.games, evaluator.remaining))
            evaluator.env.problem.finish_randomly(states, seed + evaluator.evaluations)
            evaluator.offer_states(states)


class Package:
    """A class inside of which a package may define an agent."""

    class Inner(Theirs):
        learns = True
        formulations = (Formulation.ONE_SHOT, Formulation.GAME)


class Confused(Theirs):
    """Says one formulation where it should say a tuple of them."""

    formulations = Formulation.GAME


class Impostor(Theirs):
    """An agent under a name of ours."""

    name = "random"


class Lazy(Theirs):
    """Finds out too late what it lacks."""

    def __init__(self) -> None:
        import a_package_that_nobody_has  # noqa: F401


def install(monkeypatch: pytest.MonkeyPatch, **homes: str) -> None:
    """Entry points of agents by name, each with its "module:Class"."""
    points = [EntryPoint(name.replace("_", "-"), home, plugins.AGENTS) for name, home in homes.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda *, group: [point for point in points if point.group == group])
