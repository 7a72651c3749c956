"""Settings that the environments of many programs draw from, with the latencies that their rewards are relative to.

The rule. Of the game and of the one-shot problem (whose settings `MemPlaceSteps` plays), the settings are all those
that the experiment `suite` measured, registered or not: every program of the zoo on four or five chips, at the batches
that it tried. On a chip of `MORE_CHIPS` that it leaves out in a formulation, they are the programs of the chip's split,
at batch 1 and int8, as these chips have small memories. A setting counts if its best cheap plan is at least `LEAST`
faster than everything in the backing memory: a smaller unit would make a large reward of next to nothing. The cheap
plans are those of the experiment `suite`. Which settings a split draws, and how often, is said in
`memplace_env.envs.many.draws`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from benchmarks.experiments import suite
from benchmarks.experiments.suite import DIMS, FIELDS, GRID, MOST_OPS, best_cheap
from benchmarks.harness import Experiment, Records, Row, table
from benchmarks.ledger import Record
from memplace_env._lib.errors import MemPlaceError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.many.draws import SplitDraws
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS, SPLITS, chip_split, group_of, group_split
from memplace_env.placement.compiler import all_backing_report
from memplace_env.program.frontends.onnx import model_dims
from memplace_env.program.model_file import as_written
from memplace_env.program.zoo import zoo_names, zoo_path

LEAST = 0.01
"""Least gain of the best cheap plan over everything in the backing memory, as a fraction of the latter."""
MORE_CHIPS = ("ethos-u65", "ethos-u65-256", "ethos-u65-512", "ethos-u85-2048", "ethos-u85-512")
"""Chips beside those of the suite. Chips that came later are not drawn: a split stays as it is."""
KEY = (*FIELDS, "batch", "dims", "dtype")


def measured() -> list[Record]:
    """Return the settings of the suite's record that have a best cheap plan, one record each, without `tried`."""
    records = []
    for candidate in suite.records():
        for attempt in candidate["tried"]:
            if "cheap_s" in attempt and attempt["ops"] <= MOST_OPS:
                where = {field: candidate[field] for field in FIELDS}
                kept = {key: attempt[key] for key in ("batch", "dims", "dtype", "ops", "native_s", "cheap_s", "cheap")
                        if key in attempt}  # fmt: skip
                records.append({**where, **kept})
    by_key = {json.dumps([record.get(field) for field in KEY]): record for record in records}
    return list(by_key.values())


def left_out() -> Iterator[Record]:
    """Yield settings of the chips that the suite leaves out, for the programs of their splits."""
    for formulation, chip in product(FORMULATIONS, MORE_CHIPS):
        if chip in GRID[formulation]:
            continue
        for name in zoo_names():
            if zoo_path(name).suffix == ".program" or group_split(group_of(name, {})) != chip_split(chip):
                continue
            symbolic = model_dims(zoo_path(name))
            dims = {dim: DIMS[dim][0] for dim in symbolic if dim in DIMS}
            yield {
                "formulation": formulation.value,
                "workload": name,
                "accelerator": chip,
                **({"batch": 1} if "batch" in symbolic else {}),
                **({"dims": dims} if dims else {}),
                "dtype": "int8",
            }


def measure(record: Record) -> Record:
    """Return a setting's record with `backing_s`, and `cheap_s` where the suite has none; or why there is neither."""
    setting = {key: record[key] for key in KEY[1:] if key in record}
    one_shot = record["formulation"] == Formulation.ONE_SHOT
    try:
        env: Any = (OneShotEnv if one_shot else MallocGameEnv)(**setting, **as_written(setting["accelerator"]))
        if env.program.num_ops > MOST_OPS:
            return {**record, "refused": f"{env.program.num_ops} ops"}
        backing = all_backing_report(env.task).latency_s
        if "cheap_s" in record:
            return {**record, "backing_s": backing}
        cheap, cheap_s = best_cheap(env)
    except MemPlaceError as error:
        return {**record, "refused": str(error)}
    return {**record, "ops": env.program.num_ops, "backing_s": backing, "cheap_s": cheap_s, "cheap": cheap}


def counts_enough(record: Record) -> bool:
    """Return whether the best cheap plan gains at least `LEAST`."""
    return "cheap_s" in record and record["cheap_s"] <= (1 - LEAST) * record["backing_s"]


def settings_file(records: Records) -> str:
    """Return settings.json, a setting a line, without what only the records need."""
    parts = []
    for formulation in FORMULATIONS:
        mine = [record for record in records if record["formulation"] == formulation and counts_enough(record)]
        kept = ("workload", "accelerator", "batch", "dims", "dtype", "backing_s", "cheap_s", "cheap")
        lines = [json.dumps({key: record[key] for key in kept if key in record}) for record in mine]
        parts.append(f'"{formulation}": [\n' + ",\n".join(lines) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def env_id(row: Row) -> str:
    """Return the id of the environment that plays a split."""
    formulation, split, _ = row
    name = Formulation.GAME.traits.prefix if formulation is Formulation.GAME else "MemPlaceSteps"
    return f"`{name}-{split.title()}-v0`"


def count(what: str) -> Callable[[Row], int]:
    """Return a cell: the number of groups, programs, chips or settings of a split."""
    return lambda row: len(getattr(row[2], what))


EXPERIMENTS = [
    Experiment(
        "many-programs",
        __doc__,
        {
            "docs/environments.md#many programs": table(
                {"id": env_id, **{what: count(what) for what in ("groups", "programs", "chips", "settings")}},
                lambda records: [(*of, SplitDraws(*of)) for of in product(FORMULATIONS, SPLITS)],
            ),
            "memplace_env/envs/many/settings.json": settings_file,
        },
        lambda records: [*measured(), *left_out()],
        measure,
        key=KEY,
    )
]
