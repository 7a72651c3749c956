"""The base class of all agents; a subclass implements only its search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym

from memplace_agents.built_in_agents import built_in_spec
from memplace_agents.search.evaluator import Evaluator, evaluator_for
from memplace_agents.solution import Callback, Solution, Verdict
from memplace_env.envs.registration import Formulation

E = TypeVar("E", bound=Evaluator)


class Agent(ABC, Generic[E]):
    """An agent that solves environments of this package; a subclass implements `run`.

    Example, random assignments:
        >>> class Random(Agent[OneShotEvaluator]):
        ...     name = "random"
        ...     formulations = (Formulation.ONE_SHOT,)
        ...
        ...     def run(self, evaluator, seed):
        ...         problem, rng = evaluator.env.problem, np.random.default_rng(seed)
        ...         while evaluator.remaining > 0:
        ...             evaluator(rng.integers(problem.accelerator.num_levels, size=(64, problem.num_decisions)))

    Attributes:
        name: its name on the command line.
        formulations: environments that it plays; they decide which evaluator `run` gets. A class of this package has
            both from its row in `built_in_agents.BUILT_IN`, unless it sets them; any other class sets both.
        budgeted: True if the budget bounds the search; False for agents that decide themselves how many plans they
            evaluate.
        anytime: True if an interrupt ends the search with the best plan so far.
        deterministic: True if the seed changes nothing.
    """

    name: str
    formulations: tuple[Formulation, ...]
    budgeted: bool = True
    anytime: ClassVar[bool] = True
    deterministic: bool = False

    def __init_subclass__(cls, **options: Any) -> None:
        """Take name and formulations from the registry, for classes of this package that do not set them."""
        super().__init_subclass__(**options)
        spec = built_in_spec(cls)
        if spec is not None:
            cls.name = cls.__dict__.get("name", spec.name)
            cls.formulations = cls.__dict__.get("formulations", spec.formulations)

    def solve(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | None = None,
        time_limit: float | None = None,
        workers: int = 1,
    ) -> Solution:
        """Search for a fast plan.

        Args:
            env: an id such as "MemPlace-BERT-v0", or a made environment; one in `MeasurementNoise` is measured so.
            budget: most plans to evaluate, repeated measurements of a plan included. A simulator without noise is asked
                a few times more, for the baselines and the report of the answer.
            seed: seed of all randomness; the same seed gives the same plan, unless `time_limit` ends the search
                earlier.
            callback: called with the progress after each round of evaluations; an exception from it ends the search.
                An interrupt (Ctrl-C, or a KeyboardInterrupt from the callback) ends it with the best plan so far, if
                there is one.
            time_limit: most seconds to spend, or None; those in which kernels are compiled do not count.
            workers: processes in which a black-box simulator evaluates the plans of a batch: the same seed gives the
                same plan, in less time. With cost arrays they change nothing.

        Raises:
            AgentError: if the agent does not play this environment, or an option is invalid.
        """
        evaluator: Any = evaluator_for(
            env,
            self.formulations,
            budget=budget,
            callback=callback,
            time_limit=time_limit,
            seed=seed,
            workers=workers,
        )
        try:
            verdict = self._verdict(evaluator, seed)
            solution: Solution = evaluator.solution(self.name, seed, verdict)
        finally:
            evaluator.close()
        return solution

    def _verdict(self, evaluator: E, seed: int) -> Verdict:
        try:
            return self.run(evaluator, seed) or Verdict()
        except KeyboardInterrupt:
            if evaluator.incumbent is None:
                raise
            return Verdict()

    @abstractmethod
    def run(self, evaluator: E, seed: int) -> Verdict | None:
        """Search until `evaluator.remaining` is 0 or nothing is left to try.

        Every plan goes through the evaluator, which counts it, keeps the best and calls the callback.

        Args:
            evaluator: evaluates plans for the environment.
            seed: seed of all randomness.

        Returns:
            What the search has proven; None if it has proven nothing.
        """
