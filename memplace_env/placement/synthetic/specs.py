"""`from_spec`: the synthetic program that a text names, and the optimum of planted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl
from weakref import WeakValueDictionary

import numpy as np

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.hints import instead
from memplace_env.machine.accelerator import accelerator_names, is_shipped, load_accelerator
from memplace_env.machine.costs import Roofline
from memplace_env.placement.synthetic.matmul import matmul_program
from memplace_env.placement.synthetic.planting import planted
from memplace_env.placement.synthetic.random_programs import TOPOLOGIES, random_dag
from memplace_env.placement.task import Task, derived
from memplace_env.program.program import Program

LONGEST: Final = 10_000
"""Characters of settings, our choice: room for paths, and far below where reading numbers takes time."""


class _Kind(NamedTuple):
    """A kind of synthetic program: the function that makes it, and the type of each of its settings."""

    make: Callable[..., Program]
    settings: Mapping[str, Callable[[str], Any]]


_MADE: Final[WeakValueDictionary[str, Program]] = WeakValueDictionary()
"""Programs in use: who draws one asks again when it looks for the planted optimum."""


def from_spec(spec: str) -> Program:
    """Return the program that a text like `synthetic:chain?ops=24&seed=1` names.

    `synthetic:random?...` is `random_dag`, and `synthetic:matmul?factorisation=strassen-squared&size=8192` is
    `matmul_program`; any other kind is a topology of `planted`.

    Raises:
        WorkloadError: naming the unknown or wrong part.
    """
    if (made := _MADE.get(spec)) is not None:
        return made
    name, _, query = spec.removeprefix("synthetic:").partition("?")
    if name not in _KINDS:
        raise WorkloadError(f"No synthetic workload is called {name!r}; {instead(name, _KINDS)}")
    kind = _KINDS[name]
    settings: dict[str, Any] = {}
    if len(query) > LONGEST:
        raise WorkloadError(
            f"The settings of a synthetic {name} have {len(query):,} characters; the limit is {LONGEST:,}."
        )
    for key, text in parse_qsl(query, keep_blank_values=True):
        if key not in kind.settings:
            raise WorkloadError(f"{spec!r} sets {key!r}; a synthetic {name} takes {', '.join(kind.settings)}.")
        convert = kind.settings[key]
        try:
            settings[key] = convert(text)
        except WorkloadError:
            raise
        except ValueError:
            raise WorkloadError(f"{spec!r} sets {key} to {text!r}, which is not of type {convert.__name__}.") from None
    program = _MADE[spec] = kind.make(**settings)
    return program


def _shipped(text: str) -> str:
    """Return the name of a shipped accelerator: a synthetic id means the same everywhere, and opens no file."""
    if not is_shipped(text):
        raise WorkloadError(f"A synthetic id names a shipped accelerator; {instead(text, accelerator_names())}")
    return text


def _planted_program(topology: str, **settings: Any) -> Program:
    return planted(topology, **settings).program


_PLANTED_SETTINGS: Final[Mapping[str, Callable[[str], Any]]] = {
    "ops": int,
    "seed": int,
    "hot": float,
    "accelerator": _shipped,
}
_KINDS: Final[Mapping[str, _Kind]] = {
    **{topology: _Kind(partial(_planted_program, topology), _PLANTED_SETTINGS) for topology in TOPOLOGIES},
    "random": _Kind(partial(random_dag, seed=0), {"ops": int, "seed": int}),
    "matmul": _Kind(matmul_program, {"factorisation": str, "size": int, "dtype": str}),
}


_PREFIXES: Final = tuple(f"synthetic:{topology}?" for topology in TOPOLOGIES)


@derived
def planted_optimum_ps(task: Task) -> int | None:
    """Return the optimal latency in picoseconds of a planted program, on the chip and at the costs it was planted for.

    It is the sum of the ops' work: no plan is faster, and the planted levels reach it, see `planted`.

    Returns:
        None for any other program, chip or costs, or if a black box times plans.
    """
    name, chip = task.program.name, task.accelerator
    if task.is_black_box or not name.startswith(_PREFIXES) or not name.endswith(f"&accelerator={chip.name}"):
        return None
    if not is_shipped(chip.name) or load_accelerator(chip.name).sha256 != chip.sha256:
        return None
    if from_spec(name).sha256 != task.program.sha256:
        return None
    pairs: Iterable[tuple[Any, Any]] = zip(task.costs, Roofline().costs(task.program, chip), strict=True)
    if not all(np.array_equal(here, there) for here, there in pairs):
        return None
    return int(task.costs.work_ps.sum())
