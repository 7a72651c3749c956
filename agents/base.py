"""What every agent is; an agent itself writes only its search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar

import gymnasium as gym

from agents.evaluator import Evaluator, evaluator_for
from agents.solution import Callback, Solution, Verdict
from memplace_env.registration import Formulation

E = TypeVar("E", bound=Evaluator)


class Agent(ABC, Generic[E]):
    """Anything that solves an environment of this package; a subclass writes `run`.

    Example, random maps:
        >>> class Random(Agent[MapEvaluator]):
        ...     name = "random"
        ...     formulations = (Formulation.ONE_SHOT,)
        ...
        ...     def run(self, evaluator, seed):
        ...         problem, rng = evaluator.env.problem, np.random.default_rng(seed)
        ...         while evaluator.remaining > 0:
        ...             evaluator(rng.integers(problem.accelerator.num_levels, size=(64, problem.map_size)))

    Attributes:
        name: what the command line calls it.
        formulations: which environments it plays; what evaluator `run` gets follows from that.
        budgeted: whether the budget bounds the search; False for agents that decide themselves how many plans they
            evaluate.
        anytime: whether an interrupt ends the search with the best plan so far.
        deterministic: whether the seed changes nothing.
    """

    name: ClassVar[str]
    formulations: ClassVar[tuple[Formulation, ...]]
    budgeted: ClassVar[bool] = True
    anytime: ClassVar[bool] = True
    deterministic: ClassVar[bool] = False

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
            budget: plans to evaluate at most, those that a noisy measurement is repeated for included.
            seed: of all randomness: same seed, same plan (unless `time_limit` strikes first).
            callback: called after each round of evaluations; an exception from it ends the search. An interrupt
                (Ctrl-C, or a KeyboardInterrupt from the callback) ends it with the best plan so far, if there is one.
            time_limit: seconds to spend at most, or None.
            workers: processes in which a black box judges plans that are evaluated together: same seed, same plan, in
                less time. Where the cost arrays judge there is nothing to share out.

        Raises:
            AgentError: if the environment is of a kind the agent does not play, or an option makes no sense.
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
        """Search until `evaluator.remaining` is 0 or there is nothing left to try.

        Every plan goes through the evaluator, which counts it, keeps the best and tells the callback.

        Args:
            evaluator: of the environment.
            seed: of all randomness.

        Returns:
            What has been proven; None for nothing.
        """
