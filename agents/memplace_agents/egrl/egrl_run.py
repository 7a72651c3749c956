"""One training run of EGRL: its state, and one generation.

In shapes `M` denotes the members, `S` the decisions of all workloads, `L` the levels and `P` the weights of a graph
policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.egrl import boltzmann
from memplace_agents.egrl.egrl_config import EGRLConfig
from memplace_agents.egrl.egrl_replay import EgrlReplay
from memplace_agents.egrl.imagination import imagined
from memplace_agents.egrl.learner import EgrlLosses, Learner
from memplace_agents.egrl.population import (
    MUTATED_WEIGHTS,
    Population,
    chances,
    genome_of,
    mutate_weights,
    next_generation,
)
from memplace_agents.egrl.refine import Refiner
from memplace_agents.egrl.surrogate import Surrogate
from memplace_agents.learning.graph_policy import LevelNetwork, forward_of
from memplace_agents.learning.policy_file import no_numbers
from memplace_agents.learning.saved_tensors import below, like, numbers
from memplace_agents.learning.training import TrainingRun
from memplace_agents.saved_values import whole
from memplace_agents.search.cheap_plans import cheap_plans, first_assignments
from memplace_agents.search.evaluator import Evaluated, OneShotEvaluator

_REPLAY = 100_000
"""Assignments remembered at most (EGRL: 100,000)."""
_PRACTISED = 4
"""Assignments of its own that the actor tries before it learns from them; our choice."""
_PURE_REFINEMENT = 64
"""Assignments a round where nothing but refinement searches."""
_FIRST_ASSIGNMENTS = 4
"""Fastest rules whose assignments are evaluated beside the plans of all rules."""
_IMAGINED_EACH, _IMAGINED_TRIED, _IMAGINED_TIME = 256, 4, 0.5
"""Assignments imagined at most for each evaluation of the budget; how many of the best are evaluated; and the most of
a time limit that this takes for all workloads together."""


class _Workload(NamedTuple):
    """One of the programs of a run; `decisions` are its columns in the members' assignments int64[M, S]."""

    evaluator: OneShotEvaluator
    surrogate: Surrogate
    refiner: Refiner
    replay: EgrlReplay
    decisions: slice


_PARTS = ("evaluator", "surrogate", "refiner", "replay")
"""Fields of a workload that have a state."""


class EgrlRun(TrainingRun[LevelNetwork]):
    """Evolution and gradients on one or several workloads at once.

    A member's assignment is the assignments of all workloads in a row.

    Args:
        config: every constant.
        network: class of the graph policies.
        evaluators: evaluators of the workloads, on machines with equally many levels.
        policy: the policy to start from, or None for fresh networks.
        seed: seed of all randomness.

    Raises:
        AgentError: if the policy computes no numbers.
    """

    def __init__(
        self,
        config: EGRLConfig,
        network: type[LevelNetwork],
        evaluators: Sequence[OneShotEvaluator],
        policy: LevelNetwork | None,
        seed: int,
    ) -> None:
        super().__init__(seed)
        self._config, self._network = config, network
        problems = [evaluator.env.problem for evaluator in evaluators]
        sizes = [problem.num_decisions for problem in problems]
        ends = np.cumsum(sizes).tolist()
        surrogates = [Surrogate(own.env.problem, own.noisy or own.env.task.is_black_box) for own in evaluators]
        self._workloads = [
            _Workload(
                evaluator,
                surrogate,
                Refiner(evaluator, surrogate, round(config.refined_share * evaluator.budget), config.surrogate),
                EgrlReplay(min(_REPLAY, max(evaluator.remaining, 1)), size),
                slice(end - size, end),
            )
            for evaluator, surrogate, size, end in zip(evaluators, surrogates, sizes, ends, strict=True)
        ]
        self._mask = np.concatenate([problem.mask for problem in problems])  # bool[S, L]
        self._free = any(len(problem.movable) for problem in problems)
        self._start_policy = policy
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            torch.manual_seed(seed)
            fresh = [self._fresh_policy() for _ in range(config.population + 1)]
            self._first = policy or fresh[-1]
            self._learner = Learner(config, [forward_of(self._first, problem) for problem in problems], self._first)
        self._best_graph = self._learner.genome  # float32[P]
        if policy is not None and not np.isfinite(self._learner.posterior(self._best_graph[None])).all():
            raise no_numbers(problems[0].program.name)
        self._population = self._first_population(fresh[:-1])
        self._migrant = -1  # index of the actor's copy in the population; -1 before there is one

    @property
    def done(self) -> bool:
        """True if budget or time is spent, or there is nothing to decide."""
        return not self._free or min(workload.evaluator.remaining for workload in self._workloads) <= 0

    @property
    def policy(self) -> LevelNetwork:
        """The graph policy whose last assignment earned most, of the actor and the population."""
        policy = deepcopy(self._first)
        torch.nn.utils.vector_to_parameters(torch.from_numpy(self._best_graph), policy.parameters())
        return policy

    def begin(self) -> None:
        """Evaluate a given policy's assignment, the plans of the rules and the assignments of the fastest."""
        for workload in self._workloads:
            evaluator = workload.evaluator
            problem = evaluator.env.problem
            if self._start_policy is not None:
                likely = self._learner.posterior(self._learner.genome[None])[0, workload.decisions]
                self._try(workload, likely.argmax(-1)[None])
            if self._config.heuristics:
                latencies_s = {}  # of each plan that is known without a search, once
                for plan in dict.fromkeys(cheap_plans(problem).values()):
                    if evaluator.remaining > 0:
                        latencies_s[plan] = evaluator.offer(plan).latency_s
                fastest = sorted(latencies_s, key=latencies_s.__getitem__)[:_FIRST_ASSIGNMENTS]
                levels = [plan.tensor_levels(problem.program) for plan in fastest]
                if levels:
                    self._try(workload, problem.assignments_of(np.array(levels)))
            elif self._config.refine or not self._free:
                self._try(workload, problem.native_assignment[None])
        if self._config.imagined:
            for number, workload in enumerate(self._workloads, 1):
                self._imagine(workload, 1 - _IMAGINED_TIME * number / len(self._workloads))

    def _imagine(self, workload: _Workload, left: float) -> None:
        """Evaluate the best that a policy finds on the surrogate, until only a share `left` of the time is left."""
        evaluator, config = workload.evaluator, self._config
        problem, samples = evaluator.env.problem, min(config.imagined, _IMAGINED_EACH * evaluator.remaining)

        def may_go_on() -> bool:
            left_s = evaluator.seconds_left
            return left_s is None or left_s > left * (left_s + evaluator.seconds)

        if samples and len(problem.movable):
            first = first_assignments(problem) if config.heuristics else problem.native_assignment[None]
            seed = int(self._rng.integers(2**31))
            best = imagined(problem, workload.surrogate, first, samples, seed, may_go_on)
            if len(best):
                self._try(workload, best[:_IMAGINED_TRIED])

    def _try(self, workload: _Workload, assignments: NDArray[np.int64]) -> None:
        """Evaluate assignments int64[B, S] of one workload, unless its budget is spent."""
        if workload.evaluator.remaining > 0:
            self._remember(workload, assignments, workload.evaluator(assignments))

    def step(self) -> None:
        """Do one generation of the population and the actor, then refinement."""
        evaluations = 0
        if self._config.evolution or self._config.gradient:
            evaluations = self._generation()
        if self._config.refine:
            self._refine(evaluations)
        self.round += 1

    def _generation(self) -> int:
        """Evaluate an assignment of each member, breed, and train the actor; return the number of evaluations."""
        config, rng = self._config, self._rng
        practises = config.gradient and config.practice > 0
        tried = self._practise() if practises else 0
        if practises and self.done:
            return tried
        # Probabilities float32[M, S, L] of the members, and of the actor as member M where it learns.
        probabilities = chances(self._population, self._mask, self._learner.posterior)
        if config.gradient:
            probabilities = np.concatenate([probabilities, self._learner.posterior(self._learner.genome[None])])
        assignments = boltzmann.sample(rng, probabilities)
        if practises:
            assignments[-1] = probabilities[-1].argmax(-1)
        fitness = self._evaluate(assignments[: self._affordable]).mean(0)
        if len(fitness) < len(probabilities) or self.done:  # an incomplete generation teaches nothing
            return tried + len(fitness)
        members = len(self._population.is_graph)
        scalars = {"reward/best": fitness.max(), "reward/mean": fitness.mean(), "epsilon": self._epsilon}
        genomes, graphs = self._population.genomes, np.flatnonzero(self._population.is_graph)
        if config.gradient:
            genomes, graphs = np.concatenate([genomes, self._learner.genome[None]]), np.append(graphs, members)
            scalars["reward/actor"] = fitness[members]
        if len(graphs):
            self._best_graph = genomes[graphs[fitness[graphs].argmax()]].copy()
        if config.evolution:
            self._population, elites = next_generation(
                rng, config, self._population, fitness[:members], probabilities[:members]
            )
            scalars["elites/boltzmann"] = 1 - self._population.is_graph[: config.elites].mean()
            scalars["elites/migrant"] = float(self._migrant in elites)
        if config.gradient:
            scalars |= {"actor/entropy": self._entropy} if practises else self._learn(len(fitness))
        if config.evolution and config.gradient:
            self._migrate(members - 1, graph=True)
        self.scalars = {tag: float(value) for tag, value in scalars.items()}
        return tried + len(fitness)

    @property
    def _affordable(self) -> int:
        """Assignments of all workloads that may still be evaluated."""
        return min(workload.evaluator.remaining for workload in self._workloads)

    def _learn(self, assignments: int) -> dict[str, float]:
        """Do the gradient steps for so many assignments; return the mean losses by TensorBoard tag."""
        replays = [workload.replay for workload in self._workloads]
        steps = max(round(self._config.gradient_steps * assignments), 1)
        losses = [self._learner.learn(self._rng, replays) for _ in range(steps)]
        means = map(np.mean, zip(*losses, strict=True))
        return {f"actor/{name}": float(mean) for name, mean in zip(EgrlLosses._fields, means, strict=True)}

    def _practise(self) -> int:
        """Let the actor try assignments of its own and learn, some rounds; return the number of assignments."""
        tried = 0
        for _ in range(self._config.practice):
            probabilities = self._learner.posterior(self._learner.genome[None])
            count = min(_PRACTISED, self._affordable)
            assignments = boltzmann.sample(self._rng, np.repeat(probabilities, count, axis=0))
            rewards = self._evaluate(assignments)
            tried += rewards.shape[1]
            if not rewards.size or self.done:
                break
            entropies = [
                self._learner.practise(index, assignments[:, workload.decisions], row, workload.replay)
                for index, (workload, row) in enumerate(zip(self._workloads, rewards, strict=True))
            ]
            self._entropy = float(np.mean(entropies))
        return tried

    def _evaluate(self, assignments: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return rewards float64[W, M] of assignments int64[M, S] on the workloads; M is 0 if the time is up."""
        rewards = np.zeros((len(self._workloads), len(assignments)))
        self._epsilon = 0.0
        for row, workload in zip(rewards, self._workloads, strict=True):
            own = assignments[:, workload.decisions]
            result = workload.evaluator(own)
            if len(result.reward) < len(assignments):
                return rewards[:, :0]
            self._remember(workload, own, result)
            row[:] = result.repaired_reward if self._config.repaired else result.reward
            if len(result.reassigned):  # none if the time is up
                self._epsilon += float(result.reassigned.mean()) / len(self._workloads)
        return rewards

    def _remember(self, workload: _Workload, assignments: NDArray[np.int64], result: Evaluated) -> None:
        """Put evaluated assignments into the replay, and offer the best to refinement."""
        count = len(result.reward)
        if count == 0:
            return
        if self._config.repaired:
            workload.replay.add(workload.evaluator.env.problem.assignments_of(result.level), result.repaired_reward)
        else:
            workload.replay.add(assignments[:count], result.reward)
        if self._config.practice:
            made = workload.evaluator.env.problem.assignments_of(result.level)
            workload.replay.admire(made, result.repaired_reward)
        workload.surrogate.observe(result.level, result.latency_s)
        best = int(result.latency_s.argmin())
        workload.refiner.offer(assignments[best], result.latency_s[best].item(), result.level[best])

    def _refine(self, evaluations: int) -> None:
        """Spend refinement's share of the budget; then its best assignment joins the population."""
        config, rng = self._config, self._rng
        count = round(evaluations * config.refine / (1 - config.refine)) if evaluations else _PURE_REFINEMENT
        for workload in self._workloads:
            for _ in range(count if workload.refiner.can_move else 0):
                if workload.evaluator.remaining <= 0:
                    break
                workload.refiner.step(rng)
        if config.evolution and config.boltzmann:
            self._migrate(len(self._population.is_graph) - 2, graph=False)

    def _become(self, member: int, assignment: NDArray[np.int64]) -> None:
        """Make a member a chromosome around an assignment int64[S]."""
        population = self._population
        prior, temperature = boltzmann.from_assignments(assignment[None], self._mask.shape[1])
        population.is_graph[member] = False
        population.prior[member], population.temperature[member] = prior[0], temperature[0]

    def _migrate(self, member: int, graph: bool) -> None:
        """Replace a child by the actor (`graph`), or by a chromosome around the refined assignments."""
        if graph:
            self._population.is_graph[member] = True
            self._population.genomes[member] = self._learner.genome
            self._migrant = member
        else:
            self._become(member, np.concatenate([workload.refiner.best for workload in self._workloads]))

    def _fresh_policy(self) -> LevelNetwork:
        """Return a fresh policy of the configured shape, as far as its class takes it, or of the given policy's."""
        config, kind = self._config, self._network
        if self._start_policy is not None:
            return kind(**self._start_policy.options)
        shape = {"hidden": config.hidden, "depth": config.depth, "skip": config.skip, "lean": config.lean}
        taken = signature(kind).parameters
        return kind(self._mask.shape[1], **{name: value for name, value in shape.items() if name in taken})

    def _first_population(self, fresh: Sequence[LevelNetwork]) -> Population:
        """Return copies of a given policy, or the fresh ones, and chromosomes, the first from the heuristics."""
        config, rng = self._config, self._rng
        members = config.population if config.evolution else 0
        genomes = np.array([genome_of(policy) for policy in fresh[:members]], dtype=np.float32)
        genomes = genomes.reshape(members, len(self._learner.genome))
        if self._start_policy is not None:
            given = self._learner.genome
            for member in range(members):
                genomes[member] = mutate_weights(rng, given, MUTATED_WEIGHTS if member else 0.0)
        stateless = round(config.boltzmann * members)
        prior, temperature = boltzmann.initial(rng, members, self._mask, config.lean)
        if config.heuristics and stateless:
            first = [first_assignments(workload.evaluator.env.problem) for workload in self._workloads]
            assignments = np.array([np.concatenate(parts) for parts in zip(*first, strict=False)])[:stateless]
            count = len(assignments)
            prior[:count], temperature[:count] = boltzmann.from_assignments(assignments, self._mask.shape[1])
        return Population(np.arange(members) >= stateless, genomes, prior, temperature)

    def state_dict(self) -> dict[str, Any]:
        """Return all that decides how the run goes on, as tensors and plain values."""
        return super().state_dict() | {
            "population": [torch.from_numpy(array) for array in self._population],
            "learner": self._learner.state_dict(),
            "best_graph": torch.from_numpy(self._best_graph),
            "migrant": self._migrant,
            "workloads": [
                {name: getattr(workload, name).state_dict() for name in _PARTS} for workload in self._workloads
            ],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        super().load_state_dict(state)
        pairs = zip(state["population"], self._population, strict=True)
        self._population = Population(*(like(saved, present) for saved, present in pairs))
        if (self._population.temperature <= 0).any():
            raise ValueError("a temperature is not above 0")
        self._learner.load_state_dict(state["learner"])
        self._best_graph = like(state["best_graph"], self._best_graph)
        self._migrant = whole(state["migrant"], -1)
        for workload, saved in zip(self._workloads, state["workloads"], strict=True):
            below(numbers(saved["replay"]["maps"], np.uint8, (None, None)), self._mask.shape[1])
            for name in _PARTS:
                getattr(workload, name).load_state_dict(saved[name])
