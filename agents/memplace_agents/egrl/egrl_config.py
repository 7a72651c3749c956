"""Settings of EGRL: the best we found, the paper's, and its ablations. Constants stand where they are used."""

from __future__ import annotations

from dataclasses import dataclass, replace

from memplace_agents.learning.settings import check_settings
from memplace_env._lib.errors import AgentError

_AT_LEAST_ONE = ("batch", "tournament", "hidden", "depth")
_SHARES = ("boltzmann", "mutation", "refine")


@dataclass(frozen=True)
class EGRLConfig:
    """Settings of `EGRL`; the defaults are the best we found, `paper()` is the published method.

    "EGRL" marks values remembered from the paper (its table could not be confirmed), "lineage" values of the
    published code of its predecessors ERL and CERL, all others are our choice.

    Attributes:
        population: members; each proposes one assignment a generation (EGRL: 20).
        evolution, gradient: the two halves; both off leaves only imagination and the annealing of `refine`.
        boltzmann: share of Boltzmann chromosomes in the first population, and in later ones at most, elites aside
            (EGRL: 0.2); with 0 there never are any.
        elites: members that survive as they are (lineage: a fifth of the population).
        tournament: members drawn for each parent (lineage).
        mutation: probability that a child is mutated (lineage).
        hidden, depth: sizes of the graph policy (EGRL: 128, 4).
        lean: initial logit of the backing memory. EGRL starts from assignments with everything there.
        learning_rate: learning rate of actor and critics (EGRL: 1e-3).
        batch: assignments for each gradient step (EGRL: 24).
        gradient_steps: for each assignment evaluated (EGRL: 1).
        practice: rounds a generation in which the actor tries four assignments of its own. It then learns by a policy
            gradient from these and by imitating the fittest of the replay, as the compiler made them, and not from
            critics; its assignment in the generation is its likeliest.
        skip: the network's, see `GraphPolicy`.
        repaired: fitness is the reward of the plan that the compiler makes of an assignment, instead of -epsilon
            wherever it had to move something; critics learn from the assignment that it made.
        heuristics: the plans of all rules are evaluated first, and their assignments are in the first population.
        imagined: assignments that a policy tries on the surrogate before its best ones are evaluated, see
            `memplace_agents.egrl.imagination`; of a small budget at most 256 for each evaluation.
        refine: share of the budget spent on annealing the best assignment, see `memplace_agents.egrl.refine`.
        surrogate: moves on the surrogate for each proposal of refinement; with 0 refinement is local search.
    """

    population: int = 20
    evolution: bool = True
    gradient: bool = True
    boltzmann: float = 0.5
    elites: int = 4
    tournament: int = 3
    mutation: float = 0.9
    hidden: int = 128
    depth: int = 4
    lean: float = 0.0
    learning_rate: float = 1e-3
    batch: int = 24
    gradient_steps: float = 0.25
    practice: int = 0
    skip: bool = False
    repaired: bool = True
    heuristics: bool = True
    imagined: int = 64_000
    refine: float = 0.9
    surrogate: int = 100

    @classmethod
    def paper(cls) -> EGRLConfig:
        """The published method, which learns from the reward "egrl".

        `dataclasses.replace` its `evolution`, `gradient` or `boltzmann` for its ablations.
        """
        return cls(
            boltzmann=0.2,
            lean=1.0,
            gradient_steps=1.0,
            repaired=False,
            heuristics=False,
            imagined=0,
            refine=0.0,
        )

    @property
    def refined_share(self) -> float:
        """Fraction of the budget for refinement: `refine`, or all where nothing else searches."""
        return self.refine if self.evolution or self.gradient else float(self.refine > 0)

    def __post_init__(self) -> None:
        """Check every field.

        Raises:
            AgentError: if a setting is out of range; it names the field.
        """
        check_settings(self, _AT_LEAST_ONE, _SHARES)
        if self.evolution and not 0 < self.elites < self.population:
            raise AgentError(
                f"EGRLConfig.elites must be at least 1 and below population={self.population}, not {self.elites}."
            )
        if self.refine == 1 and (self.evolution or self.gradient):
            raise AgentError("EGRLConfig.refine is 1, which leaves evolution and gradient nothing; switch them off.")
        if not (self.evolution or self.gradient or self.refine):
            raise AgentError("EGRLConfig has evolution, gradient and refine all off: nothing would search.")


_PAPER = EGRLConfig.paper()
_IMITATING = replace(_PAPER, practice=10, skip=True)
CONFIGS = {
    "default": EGRLConfig(),
    "no-surrogate": EGRLConfig(surrogate=0, imagined=0),
    "no-imagination": EGRLConfig(imagined=0),
    "no-rules": EGRLConfig(heuristics=False),
    "no-gradient": EGRLConfig(gradient=False),
    "no-population": EGRLConfig(evolution=False),
    "paper": _PAPER,
    "paper-ea": replace(_PAPER, gradient=False),
    "paper-pg": replace(_PAPER, evolution=False),
    "imitating": _IMITATING,
    "imitating-pg": replace(_IMITATING, evolution=False),
    "imitating-ea": replace(_IMITATING, gradient=False),
    "paper-no-boltzmann": replace(_PAPER, boltzmann=0.0),
    "paper-ea-no-boltzmann": replace(_PAPER, gradient=False, boltzmann=0.0),
}
"""Settings by name: the best we found, without one of its parts, the published method, and its ablations."""
