"""Proofs: how a bound was proven, whether it proves a plan, and what becomes of one that a plan contradicts."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from memplace_env._lib.errors import AgentError
from memplace_env._lib.logger import LOGGER
from memplace_env._lib.units import PS

OPTIMAL_GAP = 1e-4
"""Relative gap above a proven bound within which a plan counts as optimal."""

TieBreak = Literal["backing", "none"]
"""Plans that are preferred among equally fast ones: those with the least time of the backing memory's port, or any."""

WEAK_DUALITY, BRANCH_AND_BOUND = "weak duality", "branch and bound"


class Proof(NamedTuple):
    """The proof of a bound.

    Attributes:
        sound_s: bound in seconds that rests on weak duality, which a few sums check, and not on a solver's tree.
        solver: name and version of the solver whose tree proved the bound; None if weak duality proves it.
        presolve: whether that solver simplified the program first.
        checked: whether weak duality proves the plan, or the solver, asked without presolve whether the program has a
            faster solution, has proven that it has none.
    """

    sound_s: float = 0.0
    solver: str | None = None
    presolve: bool = False
    checked: bool = False

    def summary(self) -> dict[str, object]:
        """Return plain JSON values."""
        method = WEAK_DUALITY if self.solver is None else BRANCH_AND_BOUND
        return {"method": method, "solver": self.solver, "presolve": self.presolve, "checked": self.checked}


def is_optimal(latency_s: float, bound_s: float | None, gap: float = OPTIMAL_GAP) -> bool:
    """Return whether a plan is proven to be within a gap of the optimum; False without a bound or with a false one."""
    return bound_s is not None and not contradicts(latency_s, bound_s) and latency_s <= bound_s * (1 + gap)


def contradicts(latency_s: float, bound_s: float) -> bool:
    """Return whether a plan is faster than a bound allows, so that the bound is false; both count in picoseconds."""
    return latency_s < float("inf") and round(latency_s / PS) < round(bound_s / PS)


def surviving_bound(latency_s: float, bound_s: float | None, proof: Proof | None) -> tuple[float | None, Proof | None]:
    """Return what holds of a bound beside a valid plan, in seconds, and its proof; warn if it is not the bound itself.

    Args:
        latency_s: latency of the plan.
        bound_s: a bound on all plans of its kind; None if there is none.
        proof: how it was proven; of a false bound, what weak duality proves remains.
    """
    if bound_s is None or not contradicts(latency_s, bound_s):
        return bound_s, proof
    prover = "an agent" if proof is None else proof.solver or WEAK_DUALITY
    warn_of_false_bound(round(bound_s / PS), round(latency_s / PS), prover)
    if proof is None or not proof.sound_s or contradicts(latency_s, proof.sound_s):
        return None, None
    return proof.sound_s, Proof(proof.sound_s)


def warn_of_false_bound(bound_ps: int, latency_ps: int, prover: str, refuted: bool = False) -> None:
    """Warn that a bound does not count, as there is a faster solution than it allows.

    Args:
        bound_ps: the false bound.
        latency_ps: latency of the best plan.
        prover: name and version of what proved the bound.
        refuted: whether the prover itself, asked without presolve, finds a solution below the bound.
    """
    finds = " Without presolve it finds a solution below that bound itself." if refuted else ""
    LOGGER.warning(
        "The bound of %d ps that %s proved is false and does not count; the best plan takes %d ps.%s Please report it, "
        "with the command and its model, at https://github.com/memplace/memplace/issues.",
        *(bound_ps, prover, latency_ps, finds),
    )


def check_tie_break(value: object) -> None:
    """Check that a value is a `TieBreak`.

    Raises:
        AgentError: if it is not.
    """
    if value not in get_args(TieBreak):
        raise AgentError(f"tie_break must be {' or '.join(get_args(TieBreak))}, not {value!r}.")
