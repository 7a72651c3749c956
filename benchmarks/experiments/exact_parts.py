"""Worth of the parts of the exact agent's search in games, by leaving out one of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple
from unittest.mock import patch

import numpy as np

from benchmarks.experiments import proofs
from benchmarks.harness import Columns, Experiment, Records, table
from benchmarks.ledger import Record
from memplace_agents.exact.dynamic import dynamic_run, lp_bound
from memplace_agents.exact.dynamic.dynamic_run import DynamicSearch
from memplace_leaderboard.scores import Floats

GAMES: Final = (
    "RoBERTa-edge-tpu", "ConvNeXt-tiny-edge-tpu", "MatMul-strassen2", "MLP-Mixer-train", "CoAtNet-0-ethos-u65",
    "DiT-S-2", "DenseNet121-ethos-u65", "BERT-edge-tpu", "DenseNet121-edge-tpu", "ResNet101-ethos-u65",
    "ViT-small-train", "PatchTST-edge-tpu",
)  # fmt: skip
"""The first twelve by the SHA-256 of the id of the 44 games that were not proven (`proofs.OPEN`) on 2026-11-28, before
any of these runs."""
NOTHING: Final = "nothing"
SECONDS: Final = 60.0
SAME: Final = 1e-4
"""Relative difference of two plans, or bounds, below which none is called better. Our choice."""


@contextmanager
def _without_windows() -> Iterator[None]:
    """Leave the time of the windows to branch and bound."""
    with (
        patch.object(DynamicSearch, "_windows", lambda *_: None),
        patch.object(DynamicSearch._tree, "__defaults__", (np.inf, 1.0, None)),
    ):
        yield


PARTS: Final[Mapping[str, Callable[[], AbstractContextManager[Any]]]] = {
    NOTHING: nullcontext,
    "rows of weights": partial(patch.object, lp_bound, "ROUNDS", 0),
    "longer copies in the bound": partial(patch.object, dynamic_run, "long_bound", lambda *_: 0),
    "the short tree before all else": partial(patch.object, dynamic_run, "FIRST_SHARE", 0.0),
    "annealing": partial(patch.object, DynamicSearch, "_anneal", lambda *_: False),
    "windows": _without_windows,
    # Where all windows promise as much, they are taken from left to right.
    "the order of windows": partial(
        patch.object, DynamicSearch, "_least_ps", property(lambda s: s._time_ps, lambda s, _: None), create=True
    ),
}
"""Parts of the search by name, and what leaves each of them out as long as it is entered."""


def measure(run: Record) -> Record:
    """Return the record of `proofs.measure` with a part left out."""
    with PARTS[run["without"]]():
        return proofs.measure(run)


def settings(records: Records = ()) -> list[Record]:
    """Return the runs of all games without each part."""
    return [
        {"id": f"MallocGame-{name}-v0", "series": "parts", "without": part, "seconds": SECONDS}
        for part, name in product(PARTS, GAMES)
    ]


class Part(NamedTuple):
    """The records of the runs without a part, and of the same games with all parts."""

    name: str
    pairs: list[tuple[Record, Record]]

    def losses(self, field: str) -> Floats:
        """Return the logarithms of ratios: of slower plans or of lower bounds, float64[games]."""
        loss = np.log([without[field] / whole[field] for without, whole in self.pairs])
        return np.asarray(-loss if field == "bound_ps" else loss)

    def mean(self, field: str) -> str:
        """Return the geometric mean of the loss."""
        return "" if self.name == NOTHING else f"{np.expm1(self.losses(field).mean()):+.2%}"

    def counts(self, field: str) -> str:
        """Return the number of games that are worse and better without the part."""
        loss = self.losses(field)
        return "" if self.name == NOTHING else f"{(loss > SAME).sum()} : {(loss < -SAME).sum()}"


def parts(records: Records) -> list[Part]:
    """Return the records by the part that is left out."""
    whole = {record["id"]: record for record in records if record["without"] == NOTHING}
    found: dict[str, list[tuple[Record, Record]]] = {}
    for record in records:
        found.setdefault(record["without"], []).append((record, whole[record["id"]]))
    return [Part(*item) for item in found.items()]


COLUMNS: Final[Columns] = {
    "left out": lambda part: part.name,
    "sum of gaps": lambda part: f"{sum(proofs.gap(record) for record, _ in part.pairs):.1%}",
    "plans slower by": lambda part: part.mean("latency_ps"),
    "worse : better": lambda part: part.counts("latency_ps"),
    "bounds lower by": lambda part: part.mean("bound_ps"),
    "worse : better ": lambda part: part.counts("bound_ps"),
}
EXPERIMENTS = [
    Experiment(
        "exact-parts",
        __doc__,
        {"agents/memplace_agents/exact/README.md#exact parts": table(COLUMNS, parts)},
        settings,
        measure,
        key=("id", "without", "seconds"),
    )
]
