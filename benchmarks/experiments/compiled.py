"""Headroom of settings as today's compilers see them; those with most have ids `...-Compiled-v0`.

The rule, written down before anything was measured. Candidates are the settings of all registered ids, and as maps also
the zoo's programs with at most `SMALL` bytes of weights, in int8 at batch 1, on each chip of `MICRO`. Each is built
with what is known of the chip: its fusion, the patterns that compilers know as one op, results in place, alignment, and
inputs and outputs as blocks where the chip has them. The headroom is the latency of the best cheap plan, see `suite`,
over that of the best plan found by the exact agent within `WORK`, and by `SEARCHED` plans of local search for maps and
of cross-entropy for games where the exact agent leaves more than 1 % to its bound. Maps on chips that stream weights
are those of local search, as no map can say that an op waits for a copy. A candidate passes from `LEAST` on. Of each
formulation chips take turns, those with most candidates first; a chip's turn takes the passing candidate with the
largest headroom whose family has no id yet, until there are `MOST`. A setting that is as it was written, so that it
would be a registered problem under another name, is no candidate.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import memplace_agents
from benchmarks.experiments.suite import ENDLESS, IDS, SOLVED, best_cheap, best_s, gap, headroom, with_variant
from benchmarks.harness import Columns, Experiment, Records, data, field, milliseconds, table
from benchmarks.ledger import Record
from memplace_env._lib.errors import MemPlaceError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS, family_of
from memplace_env.placement.compiler import all_backing_report
from memplace_env.placement.task import Task
from memplace_env.program.frontends.onnx import model_dims
from memplace_env.program.model_file import as_written, format_of
from memplace_env.program.program import TensorKind
from memplace_env.program.zoo import zoo_names, zoo_path
from memplace_leaderboard.pinned import costs_sha256, task_of

END: Final = "Compiled"
MICRO: Final = ("stm32n6", "ethos-u55-256")
"""Chips of microcontrollers, in whose arenas inputs and outputs are blocks."""
SMALL: Final = 8_000_000
"""Most bytes of weights of a program for such a chip. Our choice."""
WORK: Final = 20.0
SEARCHED: Final = 1000
LEAST: Final = 1.03
MOST: Final = 12
EVERY: Final = 3
"""The page shows of so many ids, sorted by headroom, the one in the middle. Our choice."""
CHOICES: Final = ("fusion", "patterns", "in_place", "alignment", "io_level")
"""Settings that an id says, so that it stays the same problem whatever becomes known of its chip."""


def settings(records: Records = ()) -> Iterator[Record]:
    """Yield the candidates by formulation and name."""
    for formulation in FORMULATIONS:
        for name in formulation.traits.settings:
            yield {"formulation": formulation.value, "name": name}
    for chip in MICRO:
        for name in zoo_names():
            if format_of(zoo_path(name)) == ".onnx":
                yield {"formulation": Formulation.ONE_SHOT.value, "name": f"{name}-{chip}"}


def written(formulation: Formulation, name: str) -> dict[str, Any]:
    """Return the setting of a candidate, without what is known of the chip."""
    traits = formulation.traits
    if name in traits.settings:
        return {"workload": name, "accelerator": traits.accelerator, **traits.settings[name]}
    (chip,) = (chip for chip in MICRO if name.endswith(f"-{chip}"))
    workload = name.removesuffix(f"-{chip}")
    batch = {"batch": 1} if "batch" in model_dims(zoo_path(workload)) else {}
    return {"workload": workload, "accelerator": chip, **batch, "dtype": "int8"}


def measure(run: Record) -> Record:
    """Return a candidate with its setting, its plans' latencies, the bound, and the search's processor seconds."""
    formulation = Formulation(run["formulation"])
    setting = written(formulation, run["name"])
    try:
        env = MallocGameEnv(**setting) if formulation is Formulation.GAME else OneShotEnv(**setting)
    except MemPlaceError as error:
        return {**run, "refused": str(error)}
    task, is_game = env.task, isinstance(env, MallocGameEnv)
    weights = int(task.program.tensor_bytes[task.program.tensor_kind == TensorKind.WEIGHT].sum())
    if setting["accelerator"] in MICRO and weights > SMALL:
        return {**run, "refused": f"{weights:,} bytes of weights"}
    cheap, cheap_s = best_cheap(env)
    setting |= {
        **as_written(setting["accelerator"]),
        **{key: task.settings[key] for key in CHOICES if key in task.settings},
    }
    began, agent = time.process_time(), memplace_agents.Exact(tie_break="none", work=WORK)
    exact = agent.solve(env, budget=ENDLESS)
    assert exact.report is not None
    assert exact.bound_s is not None
    found = {"plan_s": min(exact.report.latency_s, cheap_s)}
    waits = task.streams_weights and not is_game
    if waits or found["plan_s"] > (1 + SOLVED) * exact.bound_s:
        search = memplace_agents.CrossEntropy() if is_game else memplace_agents.LocalSearch()
        searched = search.solve(env, budget=SEARCHED, seed=0).report
        assert searched is not None
        found["plan_s"] = min(found["plan_s"], searched.latency_s)
        if waits:
            found["map_s"] = min(searched.latency_s, cheap_s)
    return {
        **run,
        "setting": setting,
        "new": is_new(formulation, run["name"], task),
        "ops": task.program.num_ops,
        "baseline_s": (all_backing_report(task) if is_game else env.problem.native_report).latency_s,
        "cheap": cheap,
        "cheap_s": cheap_s,
        **found,
        "bound_s": exact.bound_s,
        "seconds": round(time.process_time() - began, 2),
    }


def passes(record: Record) -> bool:
    """Return True if the setting is a problem of its own, whose headroom is large enough for an id."""
    return bool(record["new"]) and headroom(record) >= LEAST


def is_new(formulation: Formulation, name: str, task: Task) -> bool:
    """Return False if the task is that of the registered id of this name."""
    if name not in formulation.traits.settings:
        return True
    before = task_of(formulation.traits.env_id(name))
    return (task.program.sha256, costs_sha256(task.costs)) != (before.program.sha256, costs_sha256(before.costs))


def chosen(records: Records) -> list[Record]:
    """Return the candidates that have an id, maps first."""
    return [record for formulation in FORMULATIONS for record in _of_formulation(records, formulation)]


def _of_formulation(records: Records, formulation: Formulation) -> list[Record]:
    mine = [r for r in records if r["formulation"] == formulation and "setting" in r]
    chips = [chip for chip, _ in Counter(r["setting"]["accelerator"] for r in mine).most_common()]
    waiting: dict[str, list[Record]] = {chip: [] for chip in chips}
    for record in sorted(filter(passes, mine), key=headroom, reverse=True):
        waiting[record["setting"]["accelerator"]].append(record)
    taken, families = list[Record](), set[str]()
    while len(taken) < MOST:
        before = len(taken)
        for chip in chips:
            fresh = [r for r in waiting[chip] if family_of(r["name"], r["setting"]) not in families]
            if fresh and len(taken) < MOST:
                taken.append(fresh[0])
                families.add(family_of(fresh[0]["name"], fresh[0]["setting"]))
        if len(taken) == before:
            break
    return taken


def env_id(record: Record) -> str:
    """Return the id of a candidate."""
    return Formulation(record["formulation"]).traits.env_id(f"{record['name']}-{END}")


def registered(records: Records) -> str:
    """Return the file of ids with those of the candidates that have one."""
    names = {
        kind.value: {r["name"]: r["setting"] for r in chosen(records) if r["formulation"] == kind}
        for kind in FORMULATIONS
    }
    return with_variant(END, {}, names)


def shares(records: Records) -> str:
    """Return how many candidates fit their chips, and how many pass."""
    fit = [record for record in records if "setting" in record]
    parts = [
        f"{sum(passes(r) for r in fit if r['formulation'] == kind)} of "
        f"{sum(r['formulation'] == kind for r in fit)} {kinds}"
        for kind, kinds in ((Formulation.ONE_SHOT, "one-shot settings"), (Formulation.GAME, "games"))
    ]
    return f"At least {LEAST - 1:.0%} is left over the best cheap plan in {' and '.join(parts)}."


def shown(records: Records) -> list[Record]:
    """Return an id in `EVERY`, by rising headroom."""
    return sorted(chosen(records), key=headroom)[EVERY // 2 :: EVERY]


COLUMNS: Final[Columns] = {
    "id": env_id,
    "fusion": lambda record: record["setting"].get("fusion", ""),
    "ops": field("ops"),
    "best cheap ms": lambda record: milliseconds(record["cheap_s"]),
    "of": field("cheap"),
    "best plan ms": lambda record: milliseconds(best_s(record)),
    "headroom": lambda record: f"{headroom(record) - 1:+.1%}",
    "gap": lambda record: f"{max(gap(record), 0):.2%}",
    "s": field("seconds", ".1f"),
}
EXPERIMENTS = [
    Experiment(
        "compiled",
        __doc__,
        {
            "docs/programs.md#compiled": table(COLUMNS, shown, shares),
            "docs/data/compiled-ids.csv": data(COLUMNS, chosen),
            IDS: registered,
        },
        settings,
        measure,
        key=("formulation", "name"),
    )
]
