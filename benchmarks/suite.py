"""Which environments have an id: every program of the zoo on every chip, in both formulations.

    python -m benchmarks.suite                    # measures what is missing, then what the rule chooses, as a table
    python -m benchmarks.suite --register         # and writes memplace_env/ids.json
    python -m benchmarks.suite --write docs/programs.md

The rule. A setting's headroom is the latency of its best cheap plan over that of the best plan found: both are in hand
and valid, so it is proven; how much more there may be, the gap to a bound says. Cheap plans of maps are native's, all-
fastest's and density-greedy's ten; cheap games those of XLA's public option sets and of the greedy player. The best
plan is the exact agent's after `SECONDS`, for games also, where that is not within 1 % of its bound, that of beam and
local search in `search_seconds`. A program's settings on a chip are tried in the order of `GRID`, games then at two
batches at which their activations contend for fast memory; the first whose headroom is 2 % (maps; 1 % on nnp-i, their
home) or 3 % (games) or more is registered, and where none is, the program has no id on that chip. Costs are the chip's
own. The ids that stood before the rule, `FIRST`, keep the settings that recorded results name, whatever they leave.
Programs of over `MOST_OPS` ops are left out, and where a bound shows that too little is left nobody searches.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import agents
from agents.exact.dynamic.bound import linear_bound_ps
from agents.game.portfolio import Portfolio
from agents.stages import Stage
from benchmarks.as_measured import FIRST
from benchmarks.cores import single_cores
from benchmarks.game_grid import cheap_stages
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import markdown, setting_text, write_between_markers
from memplace_env.accelerator import load_accelerator
from memplace_env.compiler import HEURISTICS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.errors import MemPlaceError
from memplace_env.files import write_atomically
from memplace_env.leaderboard.splits import FORMULATIONS, group_of, group_split
from memplace_env.registration import Formulation
from memplace_env.simulator import judge_plan
from memplace_env.units import PS
from memplace_env.workload.onnx import model_dims
from memplace_env.workload.resolve import resolve_workload
from memplace_env.workload.zoo import zoo_names, zoo_path

RESULTS = Path(__file__).parent / "results" / "suite.jsonl"
IDS = Path(__file__).parents[1] / "memplace_env" / "ids.json"
FIELDS = ("formulation", "workload", "accelerator")
LEAST = {Formulation.ONE_SHOT: 1.02, Formulation.GAME: 1.03}
LEAST_MAPS_AT_HOME = 1.01
SOLVED = 0.01
"""Gap from which on nobody searches further."""
SECONDS = {Formulation.ONE_SHOT: 8.0, Formulation.GAME: 12.0}
SEARCH_SECONDS = 6.0
SECONDS_AN_OP = 0.05
MOST_OPS = 3000
ENDLESS = 10**9

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
"""How many times fast memory what is alive at once shall be, in the order in which games are tried after `GRID`."""
DIMS = {"sequence": (384,), "decoder_sequence": (128,), "past_sequence": (1024, 8192)}
"""Sizes of symbolic dims; another dim has its default."""


def places() -> Iterator[Record]:
    """What may have an id: formulation, program and chip."""
    for formulation in FORMULATIONS:
        for chip, name in product(GRID[formulation], zoo_names()):
            yield {"formulation": formulation.value, "workload": name, "accelerator": chip}
        for each in first(formulation).values():
            if each["workload"] not in zoo_names() or each["accelerator"] not in GRID[formulation]:
                yield place_of(formulation, each)


def settings(place: Record) -> list[Record]:
    """The settings of a place in the order in which they are tried."""
    formulation, name, chip = Formulation(place["formulation"]), place["workload"], place["accelerator"]
    stood = [each for each in first(formulation).values() if place_of(formulation, each) == place]
    if stood:
        return [bare(each) for each in stood]
    dtype, batches = GRID[formulation][chip]
    path = zoo_path(name)
    if path.suffix == ".program":
        return [{}]
    symbolic = model_dims(path)
    free = [dim for dim in symbolic if dim in DIMS]
    return [
        {**({"batch": batch} if batch else {}), "dtype": dtype} | ({"dims": dims} if dims else {})
        for dims in [dict(zip(free, sizes, strict=True)) for sizes in product(*(DIMS[dim] for dim in free))]
        for batch in ((*batches, *contended(place, dtype, dims)) if "batch" in symbolic else (0,))
    ]


def contended(place: Record, dtype: str, dims: dict[str, int]) -> list[int]:
    """Batches, powers of two, at which a game's activations most nearly fill fast memory `CONTENTION` times."""
    if place["formulation"] != Formulation.GAME:
        return []
    chip = load_accelerator(place["accelerator"])
    single = resolve_workload(place["workload"], batch=1, dims=dims or None, dtype=dtype, fusion=chip.fusion)
    alive = int(single.live_bytes.max()) / chip.levels[0].capacity_bytes
    batches = [2 ** max(round(math.log2(times / alive)), 0) for times in CONTENTION]
    return list(dict.fromkeys(batch for batch in batches if batch not in GRID[Formulation.GAME][chip.name][1]))


def first(formulation: Formulation) -> dict[str, Record]:
    """The ids that stood before the rule, by name, with all of their settings."""
    home = formulation.traits.accelerator
    return {
        name: {**each, "workload": each.get("workload", name), "accelerator": each.get("accelerator", home)}
        for name, each in FIRST[formulation].items()
    }


def place_of(formulation: Formulation, setting: Record) -> Record:
    """Where a setting is measured."""
    where = {key: setting[key] for key in ("workload", "accelerator")}
    return {"formulation": formulation.value, **where}


def bare(setting: Record) -> Record:
    """A setting without its place."""
    return {key: setting[key] for key in ("batch", "dims", "dtype") if key in setting}


def measure(place: Record) -> Record:
    """A place with all settings that were tried, the last of which passed if any did.

    `place` may have some that were `tried` already; they are not measured again where they were `searched_enough`.
    """
    place = dict(place)
    formulation = Formulation(place["formulation"])
    run = _measure_map if formulation is Formulation.ONE_SHOT else _measure_game
    known = {json.dumps(bare(each), sort_keys=True): each for each in place.pop("tried", []) if searched_enough(each)}
    tried: list[Record] = []
    for setting in settings(place):
        if (before := known.get(json.dumps(setting, sort_keys=True))) is not None:
            tried.append(before)
            continue
        where = {"workload": place["workload"], "accelerator": place["accelerator"]}
        try:
            tried.append({**setting, **run({**where, **setting}, least(place))})
        except MemPlaceError as error:
            tried.append({**setting, "refused": str(error)})
        if passes(place, tried[-1]):
            break
    return {**place, "tried": tried}


def _measure_map(setting: Record, enough: float) -> Record:
    env = OneShotEnv(**setting)
    if env.program.num_ops > MOST_OPS:
        return {"ops": env.program.num_ops}
    cheap = {name: judge_plan(env.task, HEURISTICS[name](env.task)).latency_s for name in ("native", "all-fastest")}
    greedy = agents.DensityGreedy(10).solve(env)
    assert greedy.report is not None
    cheap["density-greedy"] = greedy.report.latency_s
    best = min(cheap, key=lambda name: cheap[name])
    record = {"ops": env.program.num_ops, "native_s": cheap["native"], "cheap_s": cheap[best], "cheap": best}
    bound = greedy.report.traffic_bound_s
    if cheap[best] < enough * bound:
        return {**record, "bound_s": bound}
    exact = agents.Exact().solve(env, time_limit=SECONDS[Formulation.ONE_SHOT])
    assert exact.report is not None
    return {**record, "plan_s": exact.report.latency_s, "bound_s": exact.bound_s, "seconds": exact.seconds}


def _measure_game(setting: Record, enough: float) -> Record:
    env = MallocGameEnv(**setting)
    if env.program.num_ops > MOST_OPS:
        return {"ops": env.program.num_ops}
    cheap = Portfolio(stages=cheap_stages()).solve(env)
    assert cheap.report is not None
    bound = linear_bound_ps(env.task, SECONDS[Formulation.GAME]) * PS
    record = {"ops": env.program.num_ops, "native_s": cheap.native_latency_s, "cheap_s": cheap.report.latency_s}
    record["cheap"] = cheap.found_by
    if cheap.report.latency_s < enough * bound:
        return {**record, "bound_s": bound}
    stages = [*cheap_stages(), Stage(agents.Exact(mip_gap=1e-3, cheap=False))]
    exact = Portfolio(stages=stages).solve(env, budget=ENDLESS, time_limit=SECONDS[Formulation.GAME])
    assert exact.report is not None
    assert exact.bound_s is not None
    bound = max(bound, exact.bound_s)
    record |= {"plan_s": exact.report.latency_s, "bound_s": bound, "seconds": exact.stints[-1].seconds}
    return record if record["plan_s"] <= (1 + SOLVED) * bound else {**record, **_searched(env, record["plan_s"])}


def _searched(env: MallocGameEnv, plan_s: float) -> Record:
    """The better of a plan and what beam and local search find."""
    stages = [*cheap_stages(), Stage(agents.BeamSearch(), 0.5), Stage(agents.GameLocalSearch())]
    seconds = search_seconds(env.program.num_ops)
    found = Portfolio(stages=stages).solve(env, budget=ENDLESS, time_limit=seconds)
    assert found.report is not None
    return {"plan_s": min(plan_s, found.report.latency_s), "searched": seconds}


def search_seconds(ops: int) -> float:
    """What beam and local search get for a game of so many ops."""
    return max(SEARCH_SECONDS, SECONDS_AN_OP * ops)


def searched_enough(record: Record) -> bool:
    """Whether a setting was searched for as long as the rule says."""
    return record.get("searched", ENDLESS) >= search_seconds(record.get("ops", 0))


def finished(record: Record) -> bool:
    """Whether a place has an id, or all of its settings were tried for as long as the rule says."""
    if passes(record, record["tried"][-1]):
        return True
    whole = len(record["tried"]) == len(settings({key: record[key] for key in FIELDS}))
    return whole and all(map(searched_enough, record["tried"]))


def headroom(record: Record) -> float:
    """Best cheap plan over the best plan; 1 where nobody searched."""
    return record["cheap_s"] / record["plan_s"] if "plan_s" in record else 1.0


def least(place: Record) -> float:
    """The least headroom that gives an id there."""
    formulation = Formulation(place["formulation"])
    at_home = place["accelerator"] == formulation.traits.accelerator
    return LEAST_MAPS_AT_HOME if at_home and formulation is Formulation.ONE_SHOT else LEAST[formulation]


def passes(place: Record, record: Record) -> bool:
    """Whether the rule gives a setting of a place an id."""
    return headroom(record) >= least(place)


def chosen(records: list[Record]) -> list[Record]:
    """What is registered: place and setting with its figures, home chips first."""
    stood = [place_of(formulation, each) for formulation in FORMULATIONS for each in first(formulation).values()]
    places = [{key: record[key] for key in FIELDS} for record in records]
    return [
        {**place, **record["tried"][-1]}
        for place, record in zip(places, records, strict=True)
        if place in stood or passes(record, record["tried"][-1])
    ]


def id_name(record: Record) -> str:
    """The part of an id between prefix and version."""
    for name, each in first(Formulation(record["formulation"])).items():
        if (each["workload"], each["accelerator"]) == (record["workload"], record["accelerator"]):
            return name
    home = Formulation(record["formulation"]).traits.accelerator
    return record["workload"] if record["accelerator"] == home else f"{record['workload']}-{record['accelerator']}"


def ids(records: list[Record]) -> dict[str, dict[str, Record]]:
    """The contents of ids.json: the first ids, then what the rule adds."""
    table = {formulation: dict(entries) for formulation, entries in FIRST.items()}
    for record in chosen(records):
        name, formulation = id_name(record), Formulation(record["formulation"])
        where = {"workload": record["workload"], "accelerator": record["accelerator"]}
        away = record["accelerator"] != formulation.traits.accelerator
        table[formulation].setdefault(name, {**(where if away else {}), **bare(record)})
    return table


def register(table: dict[str, dict[str, Record]]) -> None:
    """Write ids.json, an id a line."""
    parts = [
        f'"{formulation}": {{\n'
        + ",\n".join(f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in entries.items())
        + "\n}"
        for formulation, entries in table.items()
    ]
    write_atomically(IDS, "{\n" + ",\n".join(parts) + "\n}\n")


def table(records: list[Record]) -> str:
    """One line an id: cheap plan, best plan and what is proven."""
    headers = ["id", "setting", "split", "ops", "native or all-backing ms", "best cheap ms", "of"]
    rows = []
    for record in chosen(records):
        traits = Formulation(record["formulation"]).traits
        split = group_split(group_of(record["workload"], {}))
        row = [traits.env_id(id_name(record)), setting_text(record), split, str(record["ops"])]
        row += [f"{record['native_s'] * 1e3:.3f}", f"{record['cheap_s'] * 1e3:.3f}", record["cheap"]]
        best = record.get("plan_s", record["cheap_s"])
        row += [f"{best * 1e3:.3f}", f"{best / record['bound_s'] - 1:.2%}"]
        rows.append([*row, f"{headroom(record) - 1:.1%}" + ("" if passes(record, record) else " (stood before)")])
    return markdown([*headers, "best plan ms", "gap", "headroom"], rows)


def left_out(records: list[Record]) -> str:
    """A line a program, by formulation: why it has no id anywhere."""
    rows = []
    for name in zoo_names():
        row = [name]
        for formulation in FORMULATIONS:
            mine = [r for r in records if r["workload"] == name and r["formulation"] == formulation.value]
            row.append(_why(mine))
        if any(row[1:]):
            rows.append(row)
    return markdown(["program", "no map's id, as", "no game's id, as"], rows)


def coverage(records: list[Record]) -> str:
    """How much of the grid was measured."""
    everything = list(places())
    short = sum(not finished(record) for record in records)
    return (
        f"Of {len(everything)} places (formulation, program, chip) {len(everything) - len(records)} were not measured; "
        f"of {short} without an id not every setting was tried, or one was searched for less long than the rule says.\n"
    )


def _why(records: list[Record]) -> str:
    """Why none of these places of a program has an id; empty if one has or none was measured."""
    tried = [each for record in records for each in record["tried"]]
    if not tried or chosen(records):
        return ""
    played = [each for each in tried if "cheap_s" in each]
    if not played:
        return "too many ops" if any("ops" in each for each in tried) else "it fits nowhere"
    unproven = [each for each in played if "plan_s" in each and each["plan_s"] > (1 + SOLVED) * each["bound_s"]]
    most = max(headroom(each) for each in played)
    text = f"at most {most - 1:.1%} was found" if most > 1 else "nothing was found"
    return text + (f"; not solved in {len(unproven)} of {len(played)} settings" if unproven else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--saved", action="store_true", help="only what was measured before")
    parser.add_argument("--register", action="store_true", help="write memplace_env/ids.json")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, help="document whose tables are replaced")
    options = parser.parse_args()
    ledger = Ledger(RESULTS, FIELDS)
    if options.saved:
        records = ledger.of(places())
    else:
        with single_cores(options.jobs) as pool:
            known = {tuple(record[key] for key in FIELDS): record for record in ledger.of(places())}
            begun = [known.get(tuple(place[key] for key in FIELDS), place) for place in places()]
            records = ledger.complete(begun, measure, pool, finished)
    tables: dict[str, Any] = {"ids": table(records), "left out": f"{coverage(records)}\n{left_out(records)}"}
    for name, content in tables.items():
        print(content)
        if options.write:
            write_between_markers(options.write, name, content)
    if options.register:
        register(ids(records))


if __name__ == "__main__":
    main()
