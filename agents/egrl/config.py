"""Every constant of EGRL in one place: the paper's setting, its ablations, and what we found better."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import inf

from memplace_env.errors import AgentError

_AT_LEAST_ONE = ("actor_every", "batch", "tournament", "replay", "hidden", "depth", "attention_heads")


@dataclass(frozen=True)
class EGRLConfig:
    """Settings of `EGRL`; the defaults are the best we found, `paper()` is the published method.

    "EGRL" marks values remembered from the paper (its table could not be confirmed), "lineage" values of the
    published code of its predecessors ERL and CERL, all others are our choice.

    Attributes:
        population: members, each plays one map a generation (EGRL: 20).
        evolution, gradient: the two halves; both off leaves only what `refine` does.
        boltzmann: share of Boltzmann chromosomes in the first population, and in later ones at most, elites aside
            (EGRL: 0.2); with 0 there never are any.
        elites: members that survive as they are (lineage: a fifth of the population).
        tournament: members drawn for each parent (lineage).
        mutation: probability that a child is mutated (lineage).
        mutated_weights, mutation_strength: share of a mutated graph policy's weights that change, and by how much,
            relative to their own size (lineage); a Boltzmann child has that share of its decisions redrawn a little.
        hidden, depth, attention_heads: of the graph policy (EGRL: 128, 4, 4).
        lean: initial logit of the backing memory. EGRL starts from maps with everything there.
        learning_rate: of actor and critics (EGRL: 1e-3).
        batch: maps for each gradient step (EGRL: 24).
        gradient_steps: for each map evaluated (EGRL: 1).
        actor_every: gradient steps of the critics for each of the actor (lineage: TD3's delayed policy update).
        entropy: coefficient of the entropy of the whole map, the sum over its decisions. EGRL's is remembered as 0.05,
            of what is not known; with the sum, 0.01 did better on the two ResNets.
        reward_scale: what rewards are multiplied with for the critics (EGRL: 5).
        noise, noise_clip: of the one-hot actions that the critics learn from (TD3's 0.2 and 0.5).
        replay: maps remembered (EGRL: 100,000).
        repaired: members are judged by the plan that the compiler makes of their map, instead of by -epsilon
            wherever it had to move something; critics learn from the map that it made.
        write_back: Boltzmann parents take over what the compiler made of their map.
        heuristics: the first population holds what the compiler's heuristics ask for.
        refine: share of the budget spent on annealing the best map with moves guided by where time goes, see
            `agents.egrl.refine`.
    """

    population: int = 20
    evolution: bool = True
    gradient: bool = True
    boltzmann: float = 0.5
    elites: int = 4
    tournament: int = 3
    mutation: float = 0.9
    mutated_weights: float = 0.05
    mutation_strength: float = 0.1
    hidden: int = 128
    depth: int = 4
    attention_heads: int = 4
    lean: float = 0.0
    learning_rate: float = 1e-3
    batch: int = 24
    gradient_steps: float = 0.25
    actor_every: int = 2
    entropy: float = 0.01
    reward_scale: float = 5.0
    noise: float = 0.2
    noise_clip: float = 0.5
    replay: int = 100_000
    repaired: bool = True
    write_back: bool = False
    heuristics: bool = True
    refine: float = 0.8

    @classmethod
    def paper(cls) -> EGRLConfig:
        """The published method; `dataclasses.replace` its `evolution`, `gradient` or `boltzmann` for its ablations."""
        return cls(
            boltzmann=0.2, lean=1.0, gradient_steps=1.0, repaired=False, write_back=False, heuristics=False, refine=0.0
        )

    @property
    def refined_share(self) -> float:
        """Of the budget, what `refine` says, or all where nothing else searches."""
        return self.refine if self.evolution or self.gradient else float(self.refine > 0)

    def __post_init__(self) -> None:
        """Refuse nonsense.

        Raises:
            AgentError: naming the field.
        """
        shares = ("boltzmann", "mutation", "mutated_weights", "refine")
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, (int, float)) and not isinstance(value, bool) and not 0 <= value < inf:
                raise AgentError(f"EGRLConfig.{field.name} is {value}; pass 0 or more.")
            if field.name in _AT_LEAST_ONE and value < 1:
                raise AgentError(f"EGRLConfig.{field.name} is {value}; pass 1 or more.")
            if field.name in shares and value > 1:
                raise AgentError(f"EGRLConfig.{field.name} is {value}; it is a share, pass 0 to 1.")
        if self.evolution and not 0 < self.elites < self.population:
            raise AgentError(
                f"EGRLConfig.elites is {self.elites} of a population of {self.population}; leave room for children."
            )
        if self.refine == 1 and (self.evolution or self.gradient):
            raise AgentError("EGRLConfig.refine is 1, which leaves evolution and gradient nothing; switch them off.")
        if not (self.evolution or self.gradient or self.refine):
            raise AgentError("EGRLConfig has evolution, gradient and refine all off: nothing would search.")


def _named() -> dict[str, EGRLConfig]:
    paper = EGRLConfig.paper()
    return {
        "default": EGRLConfig(),
        "paper": paper,
        "paper-ea": replace(paper, gradient=False),
        "paper-pg": replace(paper, evolution=False),
        "paper-no-boltzmann": replace(paper, boltzmann=0.0),
        "paper-ea-no-boltzmann": replace(paper, gradient=False, boltzmann=0.0),
    }


CONFIGS = _named()
"""Settings by name: the best we found, the published method, and its ablations."""
