"""The settings that have an environment id: every program of the zoo on every chip, in both formulations.

The rule. A setting's headroom is the latency of its best cheap plan divided by that of the best plan found. Both plans
are valid, so the headroom is proven; the gap to a bound says how much more there may be. The cheap plans of the
one-shot problem are those of native, all-fastest and ten runs of density-greedy; the cheap games are those of XLA's
public option sets and of the greedy player. The best plan is the exact agent's after `SECONDS`; for games whose gap is
then above 1 %, also that of searches after `search_seconds`. Where weights are streamed, an op of the
exact agent's plan may wait for a copy, which no map can say: there the best plan of the one-shot problem is that of
local search after `MAPS` maps. A program's settings on a chip are tried in the order of `GRID`, games then at two
batches at which their activations contend for fast memory. The first setting with a headroom of at least 2 % (one-shot;
1 % on nnp-i, its home) or 3 % (games) is registered. A program without such a setting has no id on that chip. Costs are
the chip's own. The ids in `FIRST` are registered whatever their headroom. Programs of more than `MOST_OPS` ops are left
out. Where a bound shows that too little is left, no search runs. Ids stay when the rule changes: only candidates with a
record have ids, and none is tried again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import memplace_agents
from benchmarks.harness import ROOT, Columns, Experiment, Records, data, setting_text, table
from benchmarks.ledger import Record
from memplace_agents.auto import Portfolio
from memplace_agents.exact.clock import Clock
from memplace_agents.exact.dynamic.lp_bound import linear_bound
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.evaluator import GameEvaluator
from memplace_agents.search.stages import Stage
from memplace_env._lib.errors import MemPlaceError
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS, group_of, group_split
from memplace_env.envs.steps.env import CHEAP
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import all_backing_report
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import evaluate_plans
from memplace_env.program.frontends.onnx import model_dims
from memplace_env.program.model_file import as_written, format_of
from memplace_env.program.zoo import zoo_names, zoo_path
from memplace_leaderboard.suite import LEAST_GAIN

FIELDS = ("formulation", "workload", "accelerator")
IDS = "memplace_env/envs/ids.json"
"""The file of registered ids, from the root: settings by formulation and name, and their variants."""
FIRST: dict[str, dict[str, dict[str, Any]]] = json.loads(
    Path(__file__).parents[1].joinpath("data", "first-ids.json").read_text("utf-8")
)
"""Settings of the ids that are registered whatever their headroom, by formulation and name."""
LEAST = {Formulation.ONE_SHOT: 1.02, Formulation.GAME: 1 + LEAST_GAIN}
"""Least headroom that gives an id."""
LEAST_ONE_SHOT_AT_HOME = 1.01
"""The same for the one-shot problem on its home chip."""
EVERY = 16
"""The table of ids shows of so many, sorted by headroom, the one in the middle. Our choice."""
SOLVED = 0.01
"""Gap at or below which no further search runs."""
SECONDS = {Formulation.ONE_SHOT: 8.0, Formulation.GAME: 12.0}
"""Time limit of the exact agent."""
MAPS = 1000
"""Maps of the local search that says what the one-shot problem can reach where weights are streamed."""
SEARCH_SECONDS = 6.0
SECONDS_AN_OP = 0.05
MOST_OPS = 3000
ENDLESS = 10**9
"""Budget of searches that are limited by time alone."""

GRID: dict[Formulation, dict[str, tuple[str, tuple[int, ...]]]] = {
    Formulation.ONE_SHOT: {
        "nnp-i": ("float16", (2, 16)),
        "tpu-v4i": ("bfloat16", (16,)),
        "edge-tpu": ("int8", (4,)),
        "ethos-u85-2048": ("int8", (1,)),
        "intel-npu-4000": ("int8", (8,)),
    },
    Formulation.GAME: {
        "tpu-v4i": ("bfloat16", (128, 16)),
        "edge-tpu": ("int8", (4,)),
        "ethos-u65": ("int8", (1,)),
        "intel-npu-4000": ("int8", (8,)),
    },
}
"""The dtype and the batches by chip, the home of each formulation first."""
CONTENTION = (4, 1)
"""Bytes alive at once over bytes of fast memory, in the order in which games are tried after `GRID`."""
DIMS = {"sequence": (384,), "decoder_sequence": (128,), "past_sequence": (1024, 8192)}
"""Sizes of symbolic dims; other dims have their defaults."""


def records() -> list[Record]:
    """Return all records of the experiment."""
    return EXPERIMENTS[0].open().records


def candidates() -> Iterator[Record]:
    """Yield each formulation, program and chip that may have an id."""
    for formulation in FORMULATIONS:
        for chip, name in product(GRID[formulation], zoo_names()):
            yield {"formulation": formulation.value, "workload": name, "accelerator": chip}
        for setting in first(formulation).values():
            if setting["workload"] not in zoo_names() or setting["accelerator"] not in GRID[formulation]:
                yield candidate_of(formulation, setting)


def with_record() -> list[Record]:
    """Return the candidates that have a record."""
    known = {tuple(record[key] for key in FIELDS) for record in records()}
    return [candidate for candidate in candidates() if tuple(candidate.values()) in known]


def settings(candidate: Record) -> list[Record]:
    """Return the settings of a candidate in the order in which they are tried."""
    formulation, name, chip = Formulation(candidate["formulation"]), candidate["workload"], candidate["accelerator"]
    always = [setting for setting in first(formulation).values() if candidate_of(formulation, setting) == candidate]
    if always:
        return [bare(setting) for setting in always]
    dtype, batches = GRID[formulation][chip]
    path = zoo_path(name)
    if format_of(path) == ".program":
        return [{}]
    symbolic = model_dims(path)
    free = [dim for dim in symbolic if dim in DIMS]
    return [
        {**({"batch": batch} if batch else {}), "dtype": dtype} | ({"dims": dims} if dims else {})
        for dims in [dict(zip(free, sizes, strict=True)) for sizes in product(*(DIMS[dim] for dim in free))]
        for batch in ((*batches, *contended(candidate, dtype, dims)) if "batch" in symbolic else (0,))
    ]


def contended(candidate: Record, dtype: str, dims: dict[str, int]) -> list[int]:
    """Return the batches, powers of two, at which a game's activations fill fast memory about `CONTENTION` times."""
    if candidate["formulation"] != Formulation.GAME:
        return []
    chip = load_accelerator(candidate["accelerator"])
    sizes: dict[str, Any] = {"batch": 1, "dims": dims or None, "dtype": dtype}
    single = resolve_task(candidate["workload"], chip, **sizes, **as_written(chip.name)).program
    alive = int(single.live_bytes.max()) / chip.levels[0].capacity_bytes
    batches = [2 ** max(round(math.log2(times / alive)), 0) for times in CONTENTION]
    return list(dict.fromkeys(batch for batch in batches if batch not in GRID[Formulation.GAME][chip.name][1]))


def first(formulation: Formulation) -> dict[str, Record]:
    """Return the ids of `FIRST` by name, each with its workload and chip."""
    home = formulation.traits.accelerator
    return {
        name: {**setting, "workload": setting.get("workload", name), "accelerator": setting.get("accelerator", home)}
        for name, setting in FIRST[formulation].items()
    }


def candidate_of(formulation: Formulation, setting: Record) -> Record:
    """Return the candidate that a setting belongs to."""
    return {"formulation": formulation.value, "workload": setting["workload"], "accelerator": setting["accelerator"]}


def bare(setting: Record) -> Record:
    """Return a setting without its workload and chip."""
    return {key: setting[key] for key in ("batch", "dims", "dtype") if key in setting}


def best_cheap(env: OneShotEnv | MallocGameEnv) -> tuple[str, float]:
    """Return the rule of the best cheap plan, and the plan's latency in seconds."""
    is_game = isinstance(env, MallocGameEnv)
    plans = {rule: plan for rule, plan in cheap_plans(env.problem).items() if is_game or rule.split()[0] in CHEAP}
    latencies = [report.latency_s for report in evaluate_plans(env.task, list(plans.values()))]
    latency_s, rule = min(zip(latencies, plans, strict=True))
    return rule if is_game else rule.split()[0], latency_s


def measure(candidate: Record) -> Record:
    """Return a candidate with all settings that were tried; if one passed, it is the last."""
    formulation = Formulation(candidate["formulation"])
    run = _measure_one_shot if formulation is Formulation.ONE_SHOT else _measure_game
    tried: list[Record] = []
    for setting in settings(candidate):
        where = {"workload": candidate["workload"], "accelerator": candidate["accelerator"]}
        try:
            tried.append({**setting, **run({**where, **setting}, least(candidate))})
        except MemPlaceError as error:
            tried.append({**setting, "refused": str(error)})
        if passes(candidate, tried[-1]):
            break
    return {**candidate, "tried": tried}


def _measure_one_shot(setting: Record, enough: float) -> Record:
    """Return the record of a setting; nothing is searched if the bound leaves a headroom below `enough`."""
    env = OneShotEnv(**setting, **as_written(setting["accelerator"]))
    if env.program.num_ops > MOST_OPS:
        return {"ops": env.program.num_ops}
    native, (cheap, cheap_s) = env.problem.native_report, best_cheap(env)
    record = {"ops": env.program.num_ops, "native_s": native.latency_s, "cheap_s": cheap_s, "cheap": cheap}
    bound = native.traffic_bound_s
    if cheap_s < enough * bound:
        return {**record, "bound_s": bound}
    exact = memplace_agents.Exact().solve(env, time_limit=SECONDS[Formulation.ONE_SHOT])
    assert exact.report is not None
    record |= {"plan_s": exact.report.latency_s, "bound_s": exact.bound_s, "seconds": exact.seconds}
    if not env.task.streams_weights or cheap_s < enough * exact.report.latency_s:
        return record
    searched = memplace_agents.LocalSearch().solve(env, budget=MAPS, seed=0)
    assert searched.report is not None
    return {**record, "map_s": searched.report.latency_s}


def _measure_game(setting: Record, enough: float) -> Record:
    """Return the record of a setting; nothing is searched if the bound leaves a headroom below `enough`."""
    env = MallocGameEnv(**setting, **as_written(setting["accelerator"]))
    if env.program.num_ops > MOST_OPS:
        return {"ops": env.program.num_ops}
    cheap, cheap_s = best_cheap(env)
    clock = Clock.of(GameEvaluator(env, budget=1, time_limit=SECONDS[Formulation.GAME]))
    bound = linear_bound(env.task, clock).bound_ps * PS
    backing_s = all_backing_report(env.task).latency_s
    record = {"ops": env.program.num_ops, "native_s": backing_s, "cheap_s": cheap_s, "cheap": cheap}
    if cheap_s < enough * bound:
        return {**record, "bound_s": bound}
    exact = memplace_agents.Exact(mip_gap=1e-3).solve(env, budget=ENDLESS, time_limit=SECONDS[Formulation.GAME])
    assert exact.report is not None
    assert exact.bound_s is not None
    bound = max(bound, exact.bound_s)
    record |= {"plan_s": exact.report.latency_s, "bound_s": bound, "seconds": exact.seconds}
    if record["plan_s"] > (1 + SOLVED) * bound:
        record["plan_s"] = _searched_s(env, record["plan_s"])
    return record


def _searched_s(env: MallocGameEnv, plan_s: float) -> float:
    """Return the latency of the better of a plan and what cross-entropy and local search find."""
    stages = [Stage(memplace_agents.CrossEntropy(), 0.5), Stage(memplace_agents.GameLocalSearch())]
    seconds = search_seconds(env.program.num_ops)
    solution = Portfolio(stages=stages).solve(env, budget=ENDLESS, time_limit=seconds)
    assert solution.report is not None
    return min(plan_s, solution.report.latency_s)


def search_seconds(ops: int) -> float:
    """Return the time limit of cross-entropy and local search for a game of so many ops."""
    return max(SEARCH_SECONDS, SECONDS_AN_OP * ops)


def headroom(record: Record) -> float:
    """Return the latency of the best cheap plan over that of the best plan that counts; 1 where no search ran."""
    return record["cheap_s"] / record.get("map_s", record["plan_s"]) if "plan_s" in record else 1.0


def least(candidate: Record) -> float:
    """Return the least headroom that gives a candidate an id."""
    formulation = Formulation(candidate["formulation"])
    at_home = candidate["accelerator"] == formulation.traits.accelerator
    return LEAST_ONE_SHOT_AT_HOME if at_home and formulation is Formulation.ONE_SHOT else LEAST[formulation]


def passes(candidate: Record, record: Record) -> bool:
    """Return True if the rule gives this setting of a candidate an id."""
    return headroom(record) >= least(candidate)


def chosen(records: Records) -> list[Record]:
    """Return what is registered: candidate and setting with its figures, home chips first."""
    always = [
        candidate_of(formulation, setting) for formulation in FORMULATIONS for setting in first(formulation).values()
    ]
    keys = [{key: record[key] for key in FIELDS} for record in records]
    return [
        {**candidate, **record["tried"][-1]}
        for candidate, record in zip(keys, records, strict=True)
        if candidate in always or passes(record, record["tried"][-1])
    ]


def id_name(record: Record) -> str:
    """Return the part of an id between prefix and version."""
    for name, setting in first(Formulation(record["formulation"])).items():
        if (setting["workload"], setting["accelerator"]) == (record["workload"], record["accelerator"]):
            return name
    home = Formulation(record["formulation"]).traits.accelerator
    return record["workload"] if record["accelerator"] == home else f"{record['workload']}-{record['accelerator']}"


def ids(records: Records) -> dict[str, dict[str, Record]]:
    """Return the contents of ids.json: the ids of `FIRST`, then those that the rule adds."""
    table = {formulation: dict(entries) for formulation, entries in FIRST.items()}
    for record in chosen(records):
        name, formulation = id_name(record), Formulation(record["formulation"])
        where = {"workload": record["workload"], "accelerator": record["accelerator"]}
        away = record["accelerator"] != formulation.traits.accelerator
        table[formulation].setdefault(name, {**(where if away else {}), **bare(record)})
    return table


def with_ids(table: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the file with other settings of names by formulation; variants stay as far as their names do."""
    variants = _registered()["variants"]
    for variant in variants.values():
        for formulation, entries in table.items():
            if isinstance(variant[formulation], list):
                variant[formulation] = [name for name in variant[formulation] if name in entries]
    return _text({**table, "variants": variants})


def with_variant(end: str, settings: Mapping[str, Any], names: Mapping[str, Sequence[str] | Mapping[str, Any]]) -> str:
    """Return the file with another variant: what it adds to settings, and of which names, by formulation.

    Names with settings of their own need not be registered without the variant.
    """
    table = _registered()
    table["variants"][end] = {"settings": settings, **names}
    return _text(table)


def _registered() -> dict[str, Any]:
    return dict(json.loads((ROOT / IDS).read_text("utf-8")))


def _text(table: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the file: an id or a variant a line."""
    parts = [
        f'"{part}": {{\n'
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in entries.items())
        + "\n}"
        for part, entries in table.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def best_s(record: Record) -> float:
    """Return the latency of the best plan of a setting."""
    return float(record.get("plan_s", record["cheap_s"]))


def gap(record: Record) -> float:
    """Return the gap of the best plan to its bound."""
    return float(best_s(record) / record["bound_s"]) - 1


def columns(times: Callable[[float], object], small: Callable[[float, int], object]) -> Columns:
    """Return the columns of ids, given how milliseconds are shown, and fractions with so many digits in percent."""
    return {
        "id": lambda r: Formulation(r["formulation"]).traits.env_id(id_name(r)),
        "setting": setting_text,
        "split": lambda r: group_split(group_of(r["workload"], {})),
        "ops": itemgetter("ops"),
        "native or all-backing ms": lambda r: times(r["native_s"] * 1e3),
        "best cheap ms": lambda r: times(r["cheap_s"] * 1e3),
        "of": itemgetter("cheap"),
        "best plan ms": lambda r: times(best_s(r) * 1e3),
        "gap": lambda r: small(gap(r), 2),
        "headroom": lambda r: small(headroom(r) - 1, 1),
    }


def shown(records: Records) -> list[Record]:
    """Return a few ids: of each `EVERY`, by rising headroom, the one in the middle."""
    return sorted(chosen(records), key=lambda record: round(headroom(record) - 1, 6))[EVERY // 2 :: EVERY]


EXPERIMENTS = [
    Experiment(
        "suite",
        __doc__,
        {
            "docs/programs.md#ids": table(
                columns(lambda ms: f"{round(ms, 6):.3f}", lambda share, digits: f"{round(share, 6):.{digits}%}"), shown
            ),
            "docs/data/ids.csv": data(
                columns(lambda ms: round(ms, 6), lambda share, digits: round(share, 6))
                | {"by the rule": lambda record: "yes" if passes(record, record) else "no"},
                chosen,
            ),
            IDS: lambda records: with_ids(ids(records)),
        },
        lambda records: with_record(),
        measure,
        key=FIELDS,
    )
]
