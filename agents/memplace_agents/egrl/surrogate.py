"""Beyond the paper: a model of the latency that ranks proposals before one is evaluated.

The model starts from the chip's cost arrays: an op takes its time by them, and a level has room as long as the bytes of
all that live there at once fit. What was evaluated corrects it: where a black box or noise makes latencies differ from
the cost arrays', a ridge regression on the levels of the decisions is fitted to the differences. Its strength is the
most likely one (empirical Bayes), so that noise alone teaches next to nothing. With cost arrays as the simulator there
are no differences, and only the addresses of blocks are unknown to the model.

In shapes `N` denotes evaluated assignments, `S` the decisions of an assignment, `K` the tensors, `B` those that are
decided about, ordered by decision, `M` the decisions with a choice, `U` the uses, `T` the ops and `L` the levels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from memplace_agents.egrl.surrogate_kernels import anneal, latencies
from memplace_agents.learning.saved_tensors import below, like, numbers
from memplace_agents.saved_values import number, whole
from memplace_env._lib.units import PS
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.placement.compiler.density import block_lives
from memplace_env.placement.compiler.placing_order import latency_ps
from memplace_env.program.program import Ints, TensorKind

Floats = NDArray[np.float64]

_REMEMBERED = 512
"""Latest evaluated assignments that the regression is fitted to."""
_GROWTH = 1.25
"""Growth of the number of assignments after which it is fitted anew."""
_FIRST_FIT = 16
"""Assignments before it is fitted for the first time."""
_RIDGES = np.logspace(-6, 3, 28)
"""Candidates for the variance of noise over the mean variance that the levels explain."""


class SurrogateTables(NamedTuple):
    """Tables that the kernels read beside the cost arrays.

    Attributes:
        movable: int64[M], decisions with a choice.
        mask: bool[S, L], levels worth asking for.
        of: int64[S + 1], where the tensors of each decision begin.
        widest: most tensors of a decision.
        use_op, tensor_of_use: int64[U], op of each use, and its tensor, -1 for inputs and outputs.
        use_ptr, uses: the uses of tensor b are `uses[use_ptr[b]:use_ptr[b + 1]]`.
        size: int64[B], bytes.
        first, last: int64[B], first and last op of each tensor's block.
        streamed: whether weights are copied in.
        copy_ps, arrives: int64[B], time of such a copy, and the op before which it ends.
        correction_ps: float64[B, L], time that the regression adds: of each decision, to its largest tensor.
    """

    movable: Ints
    mask: NDArray[np.bool_]
    of: Ints
    widest: int
    use_op: Ints
    tensor_of_use: Ints
    use_ptr: Ints
    uses: Ints
    size: Ints
    first: Ints
    last: Ints
    streamed: bool
    copy_ps: Ints
    arrives: Ints
    correction_ps: Floats

    @classmethod
    def of_problem(cls, problem: OneShotProblem, tensors: Ints) -> SurrogateTables:
        """Return the tables of a problem for tensors int64[B] by decision, with no correction yet."""
        task, program = problem.task, problem.program
        number = np.full(program.num_tensors, -1)
        number[tensors] = np.arange(len(tensors))
        of_use = number[program.use_tensor]
        uses, use_ptr = _grouped(of_use, len(tensors))
        of = np.searchsorted(problem.decision_of[tensors], np.arange(problem.num_decisions + 1))
        first, last = block_lives(task)
        is_copied = task.streams_weights & (program.tensor_kind[tensors] == TensorKind.WEIGHT)
        return cls(
            movable=problem.movable,
            mask=problem.mask,
            of=of,
            widest=int(np.diff(of).max(initial=1)),
            use_op=program.use_op.astype(np.int64),
            tensor_of_use=of_use,
            use_ptr=use_ptr,
            uses=uses,
            size=program.tensor_bytes[tensors],
            first=first[tensors],
            last=last[tensors],
            streamed=task.streams_weights,
            copy_ps=np.where(is_copied, task.costs.prefetch_ps[tensors], 0),
            arrives=program.live_start[tensors],
            correction_ps=np.zeros((len(tensors), problem.accelerator.num_levels)),
        )


class Surrogate:
    """Latencies of assignments by cost arrays and a regression, and searches on them.

    Args:
        problem: the one-shot problem.
        learns: whether latencies may differ from the cost arrays'.
    """

    def __init__(self, problem: OneShotProblem, learns: bool) -> None:
        self._problem, self._learns = problem, learns
        self._tensors, _ = _grouped(problem.decision_of, problem.num_decisions)
        self._tables = SurrogateTables.of_problem(problem, self._tensors)
        task, self._costs = problem.task, problem.task.costs
        capacity = task.capacities[:-1].copy()
        reserved = task.kept_bytes[:, :-1].T
        if not task.streams_weights:  # weights stay, so that what any op reserves is lost at all times
            reserved = np.repeat(reserved.max(axis=1, initial=0)[:, None], task.program.num_ops, axis=1)
        self._room: Ints = np.ascontiguousarray(capacity[:, None] - reserved)
        # Standard deviation of a correction before anything is measured: in proportion to the time of the uses.
        self._prior = np.zeros(problem.mask.shape)
        decision_of_use = problem.decision_of[task.program.use_tensor]
        np.add.at(self._prior, decision_of_use[decision_of_use >= 0], self._costs.use_ps[decision_of_use >= 0])
        # The largest tensor of each decision, the last of equals, as in `OneShotProblem.assignments_of`.
        by_size = np.argsort(self._tables.size, kind="stable")
        self._largest = np.full(problem.num_decisions, -1)
        self._largest[problem.decision_of[self._tensors[by_size]]] = by_size
        self._rows: NDArray[np.uint8] = np.zeros((0, problem.num_decisions), dtype=np.uint8)
        self._differences_ps: Floats = np.zeros(0)
        self._seen, self._fitted_at, self._offset_ps = 0, 0, 0.0

    def observe(self, levels: NDArray[np.int8], latency_s: Floats) -> None:
        """Learn from evaluated plans: the levels int8[N, K] that the compiler granted, and latencies float64[N]."""
        if not self._learns or not len(levels):
            return
        nominal = np.array([latency_ps(self._problem.task, level) for level in levels])
        rows = self._problem.assignments_of(levels).astype(np.uint8)
        self._rows = np.concatenate([self._rows, rows])[-_REMEMBERED:]
        self._differences_ps = np.concatenate([self._differences_ps, latency_s / PS - nominal])[-_REMEMBERED:]
        self._seen += len(levels)
        if self._seen >= max(_FIRST_FIT, _GROWTH * self._fitted_at):
            self._fitted_at = self._seen
            fitted_ps, self._offset_ps = self._fitted()
            decided = self._largest >= 0
            self._tables.correction_ps[self._largest[decided]] = fitted_ps[decided]

    def latency_s(self, level: NDArray[np.int8]) -> float:
        """Return the seconds that levels int8[K] should take."""
        own = level[self._tensors].astype(np.int64)
        corrected_ps = self._tables.correction_ps[np.arange(len(own)), own].sum() + self._offset_ps
        return float(latency_ps(self._problem.task, level) + corrected_ps) * PS

    def latencies_s(self, requested: Ints) -> Floats:
        """Return float64[N], the seconds that assignments int64[N, S] should take, as far as there is room for them."""
        taken: Floats = latencies(self._costs, self._tables, requested, self._room)
        return (taken + self._offset_ps) * PS

    def annealed(
        self, requested: Ints, level: NDArray[np.int8], moves: int, heat_s: float, seed: int
    ) -> tuple[Ints, float]:
        """Run a chain of annealing from an assignment int64[S] that was granted levels int8[K].

        Returns:
            The assignment int64[S] where it ends, and by how many seconds it should be slower.
        """
        requested, own = requested.copy(), level[self._tensors].astype(np.int64)
        slower = anneal(self._costs, self._tables, requested, own, self._room.copy(), moves, heat_s / PS, seed)
        return requested, slower * PS

    def _fitted(self) -> tuple[Floats, float]:
        """Return corrections float64[S, L] and what all plans take more, in ps.

        Ridge regression in its dual form, with N unknowns instead of S L.
        """
        mean = self._differences_ps.mean()
        target = self._differences_ps - mean
        if not target.any():
            return np.zeros_like(self._prior), float(mean)
        chosen = self._rows[..., None] == np.arange(self._problem.accelerator.num_levels)  # bool[N, S, L]
        features = (chosen * self._prior).reshape(len(target), -1)
        middle = features.mean(axis=0)
        features -= middle
        variances, directions = np.linalg.eigh(features @ features.T)
        variances = np.maximum(variances, 0)
        seen, count = (directions.T @ target) ** 2, len(target)
        ridges = _RIDGES * max(variances.mean(), 1e-300)
        # Minus twice the logarithm of the likelihood, up to a constant, with the best scale of the prior.
        total = variances + ridges[:, None]
        unlikely = count * np.log((seen / total).mean(axis=1)) + np.log(total).sum(axis=1)
        dual = directions @ ((directions.T @ target) / total[unlikely.argmin()])
        weights = features.T @ dual
        return weights.reshape(self._prior.shape) * self._prior, float(mean - middle @ weights)

    def state_dict(self) -> dict[str, Any]:
        """Return what was learned, as tensors and plain values."""
        return {
            "rows": torch.from_numpy(self._rows),
            "differences": torch.from_numpy(self._differences_ps),
            "correction": torch.from_numpy(self._tables.correction_ps.copy()),
            "seen": [self._seen, self._fitted_at],
            "offset_ps": self._offset_ps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        rows = below(
            numbers(state["rows"], np.uint8, (None, self._problem.num_decisions)), self._problem.accelerator.num_levels
        )
        self._rows, self._differences_ps = rows, numbers(state["differences"], np.float64, (len(rows),))
        self._tables = self._tables._replace(correction_ps=like(state["correction"], self._tables.correction_ps))
        self._seen, self._fitted_at = map(whole, state["seen"])
        self._offset_ps = number(state["offset_ps"])


def _grouped(group: Ints, groups: int) -> tuple[Ints, Ints]:
    """Return the indices of int64[n] group by group, without those of none (-1), and where each group begins."""
    order = np.argsort(group, kind="stable")
    order = order[group[order] >= 0]
    return order, np.searchsorted(group[order], np.arange(groups + 1))
