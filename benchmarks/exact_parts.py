"""Measure what the parts of the exact agent's search in games are worth, by leaving out one of them at a time.

    python -m benchmarks.exact_parts                         # 60 processor seconds for each game and part
    python -m benchmarks.exact_parts --jobs 2 --write agents/memplace_agents/exact/README.md

A run that was stopped continues with what is missing in results/exact-parts.jsonl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np

from benchmarks import proofs
from benchmarks.cores import single_cores
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import benchmark_parser, markdown_table, publish
from memplace_agents.exact.dynamic import dynamic_run, lp_bound
from memplace_agents.exact.dynamic.dynamic_run import DynamicSearch

RESULTS: Final = Path(__file__).parent / "results" / "exact-parts.jsonl"
FIELDS: Final = ("id", "without", "seconds")
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


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table with a row for each part, compared with the runs that leave out nothing.

    A mean is that of the logarithm; better and worse are the games in which the plan, or the bound, is that without.
    """
    found = {(record["without"], record["id"]): record for record in records}
    rows = []
    for part in dict.fromkeys(without for without, _ in found):
        ids = [env_id for without, env_id in found if without == part]
        row = [part, f"{sum(proofs.gap(found[part, env_id]) for env_id in ids):.1%}"]
        for field, sign in (("latency_ps", 1), ("bound_ps", -1)):
            ratio = [found[part, env_id][field] / found[NOTHING, env_id][field] for env_id in ids]
            loss = sign * np.log(ratio)
            row += [f"{np.expm1(loss.mean()):+.2%}", f"{(loss > SAME).sum()} : {(loss < -SAME).sum()}"]
        rows.append(row if part != NOTHING else [*row[:2], "", "", "", ""])
    heads = ["left out", "sum of gaps", "plans slower by", "worse : better", "bounds lower by", "worse : better"]
    return markdown_table(heads, rows)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--parts", nargs="+", default=tuple(PARTS), choices=PARTS, metavar="PART", help="parts")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="processor seconds of each run (default 60)")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side (default 1)")
    options = parser.parse_args()
    if options.write and (set(options.parts) != set(PARTS) or options.seconds != SECONDS):
        parser.error("the table is of all parts and a minute; leave out --parts and --seconds, or --write")
    ids = [f"MallocGame-{name}-v0" for name in GAMES]
    runs = [
        {"id": env_id, "series": "parts", "without": part, "seconds": options.seconds}
        for part in dict.fromkeys((NOTHING, *options.parts))
        for env_id in ids
    ]
    with single_cores(options.jobs) as pool:
        records = Ledger(RESULTS, FIELDS).complete(runs, measure, pool)
    publish({"exact parts": table(records)}, options.write)


if __name__ == "__main__":
    main()
