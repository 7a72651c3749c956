"""What every agent is and returns; an agent itself writes only its search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import gymnasium as gym

from memplace_env.plan import MemoryPlan
from memplace_env.registration import Formulation
from memplace_env.simulator import Report

if TYPE_CHECKING:
    from agents.evaluator import Evaluator

Outcome = Literal["optimal", "feasible", "infeasible", "unknown"]
"""optimal: nothing better exists among what the agent searched, proven; feasible: a valid plan, nothing proven about
it or a gap left; infeasible: proven that there is no plan; unknown: stopped before it had a plan."""


class Progress(NamedTuple):
    """What a callback is told: plans evaluated and seconds spent so far, and the best latency in seconds."""

    evaluations: int
    seconds: float
    latency_s: float


Callback = Callable[[Progress], None]


class Verdict(NamedTuple):
    """What a search has proven: the outcome, if it has a plan, and a latency in seconds that no plan can beat."""

    outcome: Outcome = "feasible"
    bound_s: float | None = None


@dataclass(frozen=True)
class Solution:
    """An agent's answer.

    Attributes:
        agent: its name.
        outcome: what is known of the plan, see `Outcome`.
        plan: the best valid plan found; None when the outcome is infeasible or unknown.
        report: what the environment's simulator says of the plan.
        native_latency_s: the baseline of `speedup`. For one-shot environments the latency of the compiler's own
            heuristic, for mallocGame that of everything in the backing memory.
        bound_s: no plan of the kind the agent searches (for one-shot agents: one level for each tensor; for
            mallocGame: any plan at all) is faster than this; proven. None where the agent proves nothing.
        history: each improvement of the best latency.
        evaluations: plans evaluated, each population member and each batch row counted.
        seconds: wall time.
        seed: what all randomness came from.
    """

    agent: str
    outcome: Outcome
    plan: MemoryPlan | None
    report: Report | None
    native_latency_s: float
    bound_s: float | None
    history: tuple[Progress, ...]
    evaluations: int
    seconds: float
    seed: int

    @property
    def speedup(self) -> float:
        """latency(baseline) / latency(plan); 0 without a plan."""
        return self.native_latency_s / self.report.latency_s if self.report else 0.0

    @property
    def gap(self) -> float | None:
        """latency(plan) / bound - 1, or None where either is missing."""
        return self.report.latency_s / self.bound_s - 1 if self.report and self.bound_s else None

    def summary(self) -> dict[str, Any]:
        """Plain JSON values: all but the plan and the arrays of the report."""
        return {
            "agent": self.agent,
            "outcome": self.outcome,
            "speedup": self.speedup,
            "native_latency_s": self.native_latency_s,
            "bound_s": self.bound_s,
            "gap": self.gap,
            "evaluations": self.evaluations,
            "seconds": self.seconds,
            "seed": self.seed,
            "report": self.report.summary() if self.report else None,
        }


E = TypeVar("E", bound="Evaluator")


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
    """

    name: ClassVar[str]
    formulations: ClassVar[tuple[Formulation, ...]]
    budgeted: ClassVar[bool] = True
    anytime: ClassVar[bool] = False

    def solve(
        self,
        env: str | gym.Env[Any, Any],
        *,
        budget: int = 4000,
        seed: int = 0,
        callback: Callback | None = None,
        time_limit: float | None = None,
    ) -> Solution:
        """Search for a fast plan.

        Args:
            env: an id such as "MemPlace-BERT-v0", or a made environment.
            budget: plans to evaluate at most.
            seed: of all randomness: same seed, same plan (unless `time_limit` strikes first).
            callback: called after each round of evaluations; an exception from it ends the search.
            time_limit: seconds to spend at most, or None.

        Raises:
            AgentError: if the environment is of a kind the agent does not play, or an option makes no sense.
        """
        from agents.evaluator import evaluator_for

        evaluator: Any = evaluator_for(env, self.formulations, budget=budget, callback=callback, time_limit=time_limit)
        solution: Solution = evaluator.solution(self.name, seed, self.run(evaluator, seed) or Verdict())
        return solution

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
