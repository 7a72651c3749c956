"""One training run of EGRL: its state, and what one generation does to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from agents.egrl import boltzmann
from agents.egrl.config import EGRLConfig
from agents.egrl.learner import Learner
from agents.egrl.population import Population, chances, genome_of, mutate_weights, next_generation
from agents.egrl.refine import Refiner
from agents.egrl.replay import Replay
from agents.evaluator import Evaluated, MapEvaluator
from agents.heuristic.first_maps import first_maps
from agents.learning.graph_policy import Graph, GraphPolicy
from agents.learning.policy_file import no_numbers
from agents.learning.saved import below, like, numbers
from agents.saved import load_random, random_state, whole

_PURE_REFINEMENT = 64
"""Maps a round where nothing but refinement searches."""


class _Workload(NamedTuple):
    """One of the programs that a run maps; `decisions` are its columns in the maps of the members."""

    evaluator: MapEvaluator
    refiner: Refiner
    replay: Replay
    decisions: slice


_PARTS = ("evaluator", "refiner", "replay")
"""Of a workload: what has a state."""


class Run:
    """Maps of one or several workloads at once; a member's map is the maps of all workloads in a row.

    Args:
        config: every constant.
        evaluators: of the workloads, on machines with equally many levels.
        policy: where to start from, or None for fresh networks.
        seed: of all randomness.

    Raises:
        AgentError: if the policy computes no numbers.

    Attributes:
        round: generations done.
        scalars: figures of the last round, by TensorBoard tag.
    """

    def __init__(
        self, config: EGRLConfig, evaluators: Sequence[MapEvaluator], policy: GraphPolicy | None, seed: int
    ) -> None:
        self._config = config
        self._rng = np.random.default_rng(seed)
        problems = [evaluator.env.problem for evaluator in evaluators]
        sizes = [problem.map_size for problem in problems]
        ends = np.cumsum(sizes).tolist()
        self._workloads = [
            _Workload(
                evaluator,
                Refiner(problem, round(config.refined_share * evaluator.budget)),
                Replay(min(config.replay, max(evaluator.remaining, 1)), size),
                slice(end - size, end),
            )
            for evaluator, problem, size, end in zip(evaluators, problems, sizes, ends, strict=True)
        ]
        self._mask = np.concatenate([problem.mask for problem in problems])
        self._free = bool((self._mask.sum(axis=1) > 1).any())
        self._start_policy = policy
        with torch.random.fork_rng(devices=[]):  # modules draw their first weights from torch's own generator
            torch.manual_seed(seed)
            fresh = [self._fresh_policy() for _ in range(config.population + 1)]
            self._learner = Learner(config, [Graph.of(problem) for problem in problems], policy or fresh[-1])
        self._best_graph = self._learner.genome
        if policy is not None and not np.isfinite(self._learner.posterior(self._best_graph[None])).all():
            raise no_numbers(problems[0].program.name)
        self._population = self._first_population(fresh[:-1])
        self.round = 0
        self.scalars: dict[str, float] = {}
        self._migrant = -1

    @property
    def done(self) -> bool:
        """Whether budget or time is spent, or nothing can be decided."""
        return not self._free or min(workload.evaluator.remaining for workload in self._workloads) <= 0

    @property
    def policy(self) -> GraphPolicy:
        """The graph policy whose last map earned most, of the actor and the population."""
        with torch.random.fork_rng(devices=[]):
            policy = self._fresh_policy()
        torch.nn.utils.vector_to_parameters(torch.from_numpy(self._best_graph), policy.parameters())
        return policy

    def begin(self) -> None:
        """Evaluate what is known without search: a given policy's map, the heuristics."""
        for workload in self._workloads:
            evaluator = workload.evaluator
            problem = evaluator.env.problem
            known = []
            if self._start_policy is not None:
                likely = self._learner.posterior(self._learner.genome[None])[0, workload.decisions]
                known.append(likely.argmax(-1))
            if self._config.heuristics:
                known.extend(first_maps(problem))
            elif self._config.refine or not self._free:
                known.append(problem.native_map)
            if known and evaluator.remaining > 0:
                maps = np.array(known)
                self._remember(workload, maps, evaluator(maps))
            if self._config.heuristics and evaluator.remaining > 0:
                evaluator.offer(problem.native_plan)

    def step(self) -> None:
        """One generation of the population and the actor, then refinement."""
        evaluations = 0
        if self._config.evolution or self._config.gradient:
            evaluations = self._generation()
        if self._config.refine:
            self._refine(evaluations)
        self.round += 1

    def _generation(self) -> int:
        """Everybody plays a map, the population breeds, the actor learns; how many maps were played."""
        config, rng = self._config, self._rng
        drawn = chances(self._population, self._mask, self._learner.posterior)
        if config.gradient:
            drawn = np.concatenate([drawn, self._learner.posterior(self._learner.genome[None])])
        maps = boltzmann.sample(rng, drawn)[: min(workload.evaluator.remaining for workload in self._workloads)]
        fitness = self._evaluate(maps)
        if len(fitness) < len(drawn) or self.done:
            return len(fitness)
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
                rng, config, self._population, fitness[:members], drawn[:members]
            )
            scalars["elites/boltzmann"] = 1 - self._population.is_graph[: config.elites].mean()
            scalars["elites/migrant"] = float(self._migrant in elites)
        if config.gradient:
            replays = [workload.replay for workload in self._workloads]
            steps = max(round(config.gradient_steps * len(fitness)), 1)
            losses = [self._learner.learn(rng, replays) for _ in range(steps)]
            for name, values in zip(losses[0]._fields, zip(*losses, strict=True), strict=True):
                scalars[f"actor/{name}"] = float(np.mean(values))
        if config.evolution and config.gradient:
            self._migrate(members - 1, graph=True)
        self.scalars = {tag: float(value) for tag, value in scalars.items()}
        return len(fitness)

    def _evaluate(self, maps: NDArray[np.int64]) -> NDArray[np.float64]:
        """Fitness float64[M]: the reward, over several workloads its mean."""
        fitness = np.zeros(len(maps))
        self._epsilon = 0.0
        for workload in self._workloads:
            own = maps[:, workload.decisions]
            result = workload.evaluator(own)
            if len(result.reward) < len(maps):
                return fitness[:0]
            self._remember(workload, own, result)
            reward = result.repaired_reward if self._config.repaired else result.reward
            fitness += reward / len(self._workloads)
            if len(result.reassigned):  # none if the time is up
                self._epsilon += float(result.reassigned.mean()) / len(self._workloads)
            if self._config.write_back and len(own) >= len(self._population.is_graph):
                self._write_back(workload, result)
        return fitness

    def _remember(self, workload: _Workload, maps: NDArray[np.int64], result: Evaluated) -> None:
        """Into the replay, and the best to refinement."""
        count = len(result.reward)
        if count == 0:
            return
        if self._config.repaired:
            workload.replay.add(workload.evaluator.env.problem.maps_of(result.level), result.repaired_reward)
        else:
            workload.replay.add(maps[:count], result.reward)
        best = int(result.latency_s.argmin())
        workload.refiner.offer(maps[best], result.latency_s[best].item(), result.level[best])

    def _refine(self, evaluations: int) -> None:
        """As many proposals as keep refinement's share of the budget; then its map joins the population."""
        config, rng = self._config, self._rng
        count = round(evaluations * config.refine / (1 - config.refine)) if evaluations else _PURE_REFINEMENT
        for workload in self._workloads:
            for _ in range(count if workload.refiner.can_move else 0):
                if workload.evaluator.remaining <= 0:
                    break
                workload.refiner.step(rng, workload.evaluator)
        if config.evolution and config.boltzmann:
            self._migrate(len(self._population.is_graph) - 2, graph=False)

    def _migrate(self, slot: int, graph: bool) -> None:
        """The actor, or the refined map as a chromosome, replaces a child."""
        population = self._population
        population.is_graph[slot] = graph
        if graph:
            population.genomes[slot] = self._learner.genome
            self._migrant = slot
        else:
            entries = np.concatenate([workload.refiner.best for workload in self._workloads])
            prior, temperature = boltzmann.from_maps(entries[None], self._mask.shape[1])
            population.prior[slot], population.temperature[slot] = prior[0], temperature[0]

    def _write_back(self, workload: _Workload, result: Evaluated) -> None:
        """Chromosomes swap the preferences for what they asked and what they got."""
        population, levels = self._population, self._mask.shape[1]
        members = len(population.is_graph)
        got = workload.evaluator.env.problem.maps_of(result.level)[:members]
        prior = population.prior[:, workload.decisions]
        lifted = prior.max(-1, keepdims=True) + np.float32(0.5)
        asked_less = prior.argmax(-1) != got
        hit = (asked_less & ~population.is_graph[:, None])[..., None] & (np.arange(levels) == got[..., None])
        population.prior[:, workload.decisions] = np.where(hit, lifted, prior)

    def _fresh_policy(self) -> GraphPolicy:
        """A policy of the configured shape, or of the given policy's."""
        config = self._config
        if self._start_policy is not None:
            options = self._start_policy.options
        else:
            shape = {"hidden": config.hidden, "depth": config.depth, "attention_heads": config.attention_heads}
            options = {"levels": self._mask.shape[1], **shape}
        return GraphPolicy(**options, lean=config.lean)

    def _first_population(self, fresh: Sequence[GraphPolicy]) -> Population:
        config, rng = self._config, self._rng
        members = config.population if config.evolution else 0
        genomes = np.array([genome_of(policy) for policy in fresh[:members]], dtype=np.float32)
        genomes = genomes.reshape(members, len(self._learner.genome))
        if self._start_policy is not None:
            given = self._learner.genome
            for member in range(members):
                share = config.mutated_weights if member else 0.0
                genomes[member] = mutate_weights(rng, given, share, config.mutation_strength)
        stateless = round(config.boltzmann * members)
        prior, temperature = boltzmann.initial(rng, members, self._mask, config.lean)
        if config.heuristics and stateless:
            known = [first_maps(workload.evaluator.env.problem) for workload in self._workloads]
            maps = np.array([np.concatenate(parts) for parts in zip(*known, strict=False)])[:stateless]
            prior[: len(maps)], temperature[: len(maps)] = boltzmann.from_maps(maps, self._mask.shape[1])
        return Population(np.arange(members) >= stateless, genomes, prior, temperature)

    def state_dict(self) -> dict[str, Any]:
        """All that decides how the run goes on, as tensors and plain values."""
        return {
            "round": self.round,
            "random": random_state(self._rng),
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
        self.round = whole(state["round"])
        load_random(self._rng, state["random"])
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
