"""The factors of a machine's costs, learned from measured plans of programs and carried over to other programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from memplace_agents.calibrated.cost_factors import (
    LATENCY,
    OTHERS,
    CostFactors,
    FittedFactors,
    Floats,
    nominal_prior,
)
from memplace_agents.calibrated.repeated_measurements import MODEL_SIGMA
from memplace_agents.saved_values import number, whole
from memplace_env._lib.errors import AgentError
from memplace_env._lib.files import write_atomically
from memplace_env._lib.foreign import WORD, described, parse_json, read
from memplace_env._lib.units import PS
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.task import Task

FORMAT = "memplace machine 1"
FILE_BYTES = 2**24
"""Largest file that is read."""
LARGEST = 9.0
"""Largest number of a file: logarithms of factors and their variances are far below it."""
DIGITS = 9
"""Decimal places of numbers in files."""
PROGRAM_SIGMA, LATENCY_SIGMA = 0.05, 0.1
"""Standard deviations of the logarithm of a program's factor around the machine's, and of the factor of its whole
latency. Our choice."""


@dataclass(frozen=True, eq=False)
class MachineModel:
    """A normal distribution of the logarithms of a machine's cost factors.

    Attributes:
        chip, chip_sha256: name and hash of the chip whose nominal costs the factors are on.
        costs: name of the cost model.
        names: names of the P factors, see `CostFactors`.
        mean: float64[P].
        covariance: float64[P, P].
        programs: name of each program that was learned from and its number of measurements, in their order.
    """

    chip: str
    chip_sha256: str
    costs: str
    names: tuple[str, ...] = ()
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    covariance: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    programs: tuple[tuple[str, int], ...] = ()

    @classmethod
    def of(cls, task: Task) -> MachineModel:
        """Return the model of a task's chip before anything is measured."""
        return cls(task.accelerator.name, task.accelerator.sha256, _costs_of(task))

    def checked(self, task: Task) -> MachineModel:
        """Return the model itself if it is of a task's chip and cost model.

        Raises:
            AgentError: if it is not.
        """
        for mine, other, what in (
            (self.chip_sha256, task.accelerator.sha256, f"chip {self.chip}, whose numbers are not those of"),
            (self.costs, _costs_of(task), f"cost model {self.costs}, not {_costs_of(task)} of"),
        ):
            if mine != other:
                raise AgentError(
                    f"The machine model is for the {what} {task.program.name}'s chip {task.accelerator.name}; pass one "
                    "that 'memplace calibrate --from' wrote for it, or none."
                )
        return self

    def save(self, path: str | PathLike[str]) -> Path:
        """Write the model as JSON, all or nothing; of the covariance its lower triangle."""
        document = {
            "format": FORMAT,
            **{name: getattr(self, name) for name in ("chip", "chip_sha256", "costs", "programs", "names")},
            "mean": np.round(self.mean, DIGITS).tolist(),
            "covariance": [np.round(row[: end + 1], DIGITS).tolist() for end, row in enumerate(self.covariance)],
        }
        return write_atomically(Path(path), json.dumps(document, indent=1))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> MachineModel:
        """Read a model that `save` wrote.

        Raises:
            AgentError: if it cannot be read, or is no such file.
        """
        try:
            document = parse_json(read(path, FILE_BYTES))
            return cls._of_document(document)
        except (OSError, ValueError, TypeError, KeyError, LinAlgError) as error:
            why = getattr(error, "strerror", None) or described(str(error))
            raise AgentError(
                f"Cannot read the machine model {path}: {why}; pass a file that 'memplace calibrate --from' wrote."
            ) from None

    @classmethod
    def _of_document(cls, document: Any) -> MachineModel:
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise ValueError(f"it is no '{FORMAT}'")
        chip, sha256, costs, names = (document[key] for key in ("chip", "chip_sha256", "costs", "names"))
        lines = [chip, sha256, costs, *names]
        if not all(isinstance(line, str) and line.isprintable() and len(line) <= WORD for line in lines):
            raise ValueError("a name in it is no line of text")
        programs = tuple((str(name), whole(count)) for name, count in document["programs"])
        if not len(names) == len(set(names)) == len(document["mean"]) == len(document["covariance"]):
            raise ValueError("its lists have different lengths, or a name twice")
        mean = np.array([number(value, -LARGEST) for value in document["mean"]])
        covariance = np.zeros((len(mean), len(mean)))
        for row, values in enumerate(document["covariance"]):
            covariance[row, : row + 1] = covariance[: row + 1, row] = [number(value, -LARGEST) for value in values]
        if max(np.abs(mean).max(initial=0), np.abs(covariance).max(initial=0)) > LARGEST:
            raise ValueError(f"a number in it is above {LARGEST:g}")
        np.linalg.cholesky(covariance + np.eye(len(mean)) * PROGRAM_SIGMA**2)
        return cls(chip, sha256, costs, tuple(names), mean, covariance, programs)

    def prior(self, names: tuple[str, ...]) -> FittedFactors:
        """Return what the machine says of a program's factors, by their names."""
        mean, covariance = self._of(names)
        spread = np.array([LATENCY_SIGMA if name == LATENCY else PROGRAM_SIGMA for name in names])
        return FittedFactors(mean, np.asarray(np.linalg.inv(covariance + np.diag(spread**2))))

    def learned(
        self, task: Task, plans: Sequence[MemoryPlan], latencies_s: Sequence[float], noise: float
    ) -> MachineModel:
        """Return the machine after a program's measurements, by Bayes' rule for normal distributions.

        Args:
            task: the program on the chip, under its nominal costs.
            plans: N valid plans.
            latencies_s: N measured latencies in seconds.
            noise: relative standard deviation of a measurement.
        """
        self.checked(task)
        factors = CostFactors(task, self.prior)
        logs = np.log(np.array(latencies_s) / PS)
        variances = np.full(len(logs), MODEL_SIGMA**2 + noise**2)
        fitted = factors.fit([factors.terms(plan) for plan in plans], logs, variances)
        names = tuple(dict.fromkeys((*self.names, *(name for name in factors.names if OTHERS not in name))))
        mean, covariance = self._of((*names, *factors.names))
        # The joint normal of the machine's factors and the program's, in which the latter become the fitted ones.
        count, prior = len(names), np.linalg.inv(factors.prior.precision)
        gain = covariance[:count, count:] @ factors.prior.precision
        return replace(
            self,
            names=names,
            mean=mean[:count] + gain @ (fitted.mean - factors.prior.mean),
            covariance=covariance[:count, :count] + gain @ (fitted.covariance - prior) @ gain.T,
            programs=(*self.programs, (task.program.name, len(logs))),
        )

    def _of(self, names: tuple[str, ...]) -> tuple[Floats, Floats]:
        """Return mean and covariance of factors by their names; unknown ones have the nominal prior."""
        rows = {name: row for row, name in enumerate(self.names)}
        unknown = list(dict.fromkeys(name for name in names if name not in rows))
        rows |= {name: row for row, name in enumerate(unknown, len(rows))}
        nominal = nominal_prior(tuple(unknown))
        mean = np.concatenate([self.mean, nominal.mean])
        covariance = np.zeros((len(rows), len(rows)))
        covariance[: len(self.names), : len(self.names)] = self.covariance
        covariance[len(self.names) :, len(self.names) :] = nominal.covariance
        index = [rows[name] for name in names]
        return mean[index], covariance[np.ix_(index, index)]


def _costs_of(task: Task) -> str:
    """Return the name of a task's nominal costs."""
    return str(task.settings.get("costs") or task.accelerator.cost_model)
