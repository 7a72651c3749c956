"""The evolutionary half: members of both encodings side by side, and how a generation makes the next one.

In shapes `M` denotes the members, `P` the weights of a graph policy, `S` the decisions of an assignment and `L` the
levels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.egrl import boltzmann
from memplace_agents.egrl.egrl_config import EGRLConfig

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_WEIGHT_LIMIT = 1e6
"""Largest absolute value of a mutated weight."""
MUTATED_WEIGHTS, _MUTATION_STRENGTH = 0.05, 0.1
"""Share of a mutated graph policy's weights that change, and by how much, relative to their own size (lineage); a
Boltzmann child has that share of its decisions redrawn a little."""
_SUPER_MUTATION, _SUPER_STRENGTH = 0.05, 10.0
"""Fraction of the mutated weights that change much more, and by how much relative to their size (lineage)."""
_RESET, _RESET_SIZE = 0.02, 0.1
"""Fraction of the mutated weights that are drawn anew, and the standard deviation of the new ones (lineage)."""


class Population(NamedTuple):
    """M members as a struct of arrays; each member uses only the arrays of its own encoding.

    Attributes:
        is_graph: bool[M], true for graph policies, false for Boltzmann chromosomes.
        genomes: float32[M, P], weights of graph policies.
        prior: float32[M, S, L], see `boltzmann`.
        temperature: float32[M, S].
    """

    is_graph: NDArray[np.bool_]
    genomes: Floats
    prior: Floats
    temperature: Floats

    def take(self, members: Ints) -> Population:
        """Return copies of some members, in that order."""
        return Population._make(array[members] for array in self)

    def joined(self, other: Population) -> Population:
        """Return these members, then the others."""
        return Population._make(np.concatenate(pair) for pair in zip(self, other, strict=True))


def chances(population: Population, mask: NDArray[np.bool_], posterior: Callable[[Floats], Floats]) -> Floats:
    """Return the probabilities float32[M, S, L] from which each member draws its assignments.

    Args:
        population: M members.
        mask: bool[S, L], levels worth asking for.
        posterior: from genomes float32[B, P] to probabilities float32[B, S, L], all graph policies in one call.
    """
    result = boltzmann.probabilities(population.prior, population.temperature, mask)
    graphs = np.flatnonzero(population.is_graph)
    if len(graphs):
        result[graphs] = posterior(population.genomes[graphs])
    return result


def next_generation(
    rng: np.random.Generator,
    config: EGRLConfig,
    population: Population,
    fitness: NDArray[np.float64],
    probabilities: Floats,
) -> tuple[Population, Ints]:
    """Breed elites, and children of parents that won tournaments.

    Parents of one encoding are crossed at a single point; where they differ, the graph policy's posterior becomes
    the prior of a Boltzmann child. Children are mutated with the configured probability. As many children have two
    graph policies for parents as graph policies need to keep their share: otherwise they die out, as every mixed
    pair has a Boltzmann child. How the paper keeps its 20 % of Boltzmann chromosomes is not known; our choice.

    Args:
        rng: generator of all randomness.
        config: sizes and probabilities.
        population: M members.
        fitness: float64[M].
        probabilities: float32[M, S, L], as `chances` gave them.

    Returns:
        The next M members, elites first, and int64[elites], the indices of the elites.
    """
    elites = np.argsort(-fitness, kind="stable")[: config.elites]
    count = len(fitness) - len(elites)
    rounds = rng.integers(len(fitness), size=(2, count, config.tournament))  # competitors for mother and father
    graphs = _graph_children(config, population, elites, count)
    if graphs:
        rounds[:, :graphs] = rng.choice(np.flatnonzero(population.is_graph), size=(2, graphs, config.tournament))
    # The fittest of each tournament: int64[count] each, the first of equals.
    mother, father = np.take_along_axis(rounds, fitness[rounds].argmax(-1)[..., None], axis=-1)[..., 0]
    children = _crossed(rng, population, mother, father, probabilities)
    mutated = rng.random(count) < config.mutation
    return population.take(elites).joined(_mutated(rng, children, mutated)), elites


def _graph_children(config: EGRLConfig, population: Population, elites: Ints, count: int) -> int:
    """Return how many of `count` children must be graph policies; none if there is no graph policy left."""
    if not population.is_graph.any():
        return 0
    members = len(population.is_graph)
    wanted = members - round(config.boltzmann * members)
    return int(np.clip(wanted - population.is_graph[elites].sum(), 0, count))


def _crossed(
    rng: np.random.Generator, population: Population, mother: Ints, father: Ints, probabilities: Floats
) -> Population:
    """Return the children of mothers and fathers int64[count]."""
    both = population.is_graph[mother] & population.is_graph[father]
    prior, temperature = boltzmann.from_posterior(probabilities)
    graph = population.is_graph[:, None]
    prior = np.where(graph[..., None], prior, population.prior)
    temperature = np.where(graph, temperature, population.temperature)
    # One cut for both kinds of genes, so that a decision keeps the temperature that belongs to its prior.
    genes = np.concatenate([prior, temperature[..., None]], axis=-1)
    genes = boltzmann.crossover(rng, genes[mother], genes[father])
    mixed = population.is_graph[mother] != population.is_graph[father]
    seeded = np.where(population.is_graph[mother], mother, father)[mixed]
    genes[mixed] = np.concatenate([prior[seeded], temperature[seeded][..., None]], axis=-1)
    genomes = boltzmann.crossover(rng, population.genomes[mother], population.genomes[father])
    return Population(both, genomes, genes[..., :-1], genes[..., -1])


def _mutated(rng: np.random.Generator, children: Population, hit: NDArray[np.bool_]) -> Population:
    """Return the children, of which those that are hit have mutated; `hit` is bool[count]."""
    prior, temperature = boltzmann.mutate(rng, children.prior, children.temperature, MUTATED_WEIGHTS)
    prior = np.where(hit[:, None, None], prior, children.prior)
    temperature = np.where(hit[:, None], temperature, children.temperature)
    genomes = children.genomes.copy()
    for member in np.flatnonzero(hit & children.is_graph):
        genomes[member] = mutate_weights(rng, genomes[member], MUTATED_WEIGHTS)
    return Population(children.is_graph, genomes, prior, temperature)


def mutate_weights(
    rng: np.random.Generator, genome: Floats, share: float, strength: float = _MUTATION_STRENGTH
) -> Floats:
    """Return a copy of float32[P] in which a `share` of the weights changed, each in proportion to its size."""
    genome = genome.copy()
    index = rng.integers(len(genome), size=int(np.ceil(share * len(genome))))
    kind = rng.random(len(index))  # below 0.05 a super mutation, above 0.98 a reset, else an ordinary one
    noise = rng.standard_normal(len(index), dtype=np.float32)
    scale = np.where(kind < _SUPER_MUTATION, _SUPER_STRENGTH, strength) * np.abs(genome[index])
    changed = genome[index] + noise * scale.astype(np.float32)
    genome[index] = np.where(kind > 1 - _RESET, _RESET_SIZE * noise, changed).clip(-_WEIGHT_LIMIT, _WEIGHT_LIMIT)
    return genome


def genome_of(module: torch.nn.Module) -> Floats:
    """Return float32[P], all weights of a module in their order."""
    return torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy().copy()
