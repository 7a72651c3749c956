"""What the cost model does to placement: plans chosen under roofline costs, judged by tiled ones.

    python -m benchmarks.cost_models                       # every registered id; prints a table
    python -m benchmarks.cost_models --write docs/model.md
    python -m benchmarks.cost_models --name BERT --json    # records, one a line

Goes on where it was stopped, from results/cost_models.jsonl; without this file, anew. For each id the exact agent looks
for the fastest plan under either model, each for so many seconds. The one-shot ids take over the levels of roofline's
plan, which the compiler places anew; the games take over the plan, or, where tiled costs keep staging bytes that it
uses, what it wishes for, played as a game. Random plans are maps and games drawn evenly, made under tiled costs; both
models judge them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import agents
from agents.game.wishes import finished, plan_wishes
from agents.xla_msa import PUBLIC_SETS
from benchmarks.as_measured import GAME, ONE_SHOT
from benchmarks.cores import single_cores
from benchmarks.headroom import FIELDS as SETTING
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import markdown, setting_text, write_between_markers
from memplace_env.accelerator import load_accelerator
from memplace_env.compiler import place_mapping
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.plan import MemoryPlan
from memplace_env.plan.validator import violations
from memplace_env.registration import Formulation
from memplace_env.simulator import judge_plan, judge_plans

RESULTS = Path(__file__).parent / "results" / "cost_models.jsonl"
FIELDS = ("name", "formulation", *SETTING, "seconds")
RANDOM_PLANS = 200
ENVS: dict[str, type[OneShotEnv] | type[MallocGameEnv]] = {"one-shot": OneShotEnv, "game": MallocGameEnv}


def runs(names: Sequence[str], seconds: float) -> list[Record]:
    """Everything that is measured of the ids with these names, but for those on chips that know no tiling."""
    return [
        {
            "name": name,
            "formulation": str(formulation),
            "workload": name,
            "accelerator": formulation.traits.accelerator,
            **settings,
            "seconds": seconds,
        }
        for formulation in (Formulation.ONE_SHOT, Formulation.GAME)
        for name, settings in formulation.traits.settings.items()
        if name in names and load_accelerator(settings.get("accelerator", formulation.traits.accelerator)).tiling
    ]


def measure(run: Record) -> Record:
    """Latencies under tiled costs, in seconds, and how alike both models rank random plans."""
    make, settings = ENVS[run["formulation"]], {key: run[key] for key in SETTING if key in run}
    ours, plain = (make(**settings, costs=model) for model in ("tiled", "roofline"))
    chosen = {env: agents.Exact().solve(env, time_limit=run["seconds"]) for env in (ours, plain)}
    taken = _taken_over(ours, chosen[plain].plan)
    plans = _random_plans(ours)
    ranks = [[report.latency_ps for report in judge_plans(env.task, plans)] for env in (ours, plain)]
    return {
        **run,
        "start_s": chosen[ours].native_latency_s,
        "cheap_s": _cheap_s(ours),
        "taken_s": judge_plan(ours.task, taken).latency_s,
        "best_s": min(judge_plan(ours.task, taken).latency_s, chosen[ours].report.latency_s),
        "bound_s": chosen[ours].bound_s,
        "rank": float(spearmanr(*ranks)[0]),
    }


def _taken_over(env: Any, plan: MemoryPlan) -> MemoryPlan:
    """Another model's plan on this environment's task."""
    if isinstance(env, OneShotEnv):
        program = env.task.program
        levels = np.full(program.num_tensors, env.task.backing)
        np.minimum.at(levels, program.use_tensor, plan.use_level)
        return place_mapping(env.task, levels).plan
    if not violations(env.task, plan):
        return plan
    return env.problem.plan(finished(env.problem, plan_wishes(env.problem, plan)[None])[0])


def _random_plans(env: Any) -> list[MemoryPlan]:
    draw, task = np.random.default_rng(0), env.task
    if isinstance(env, OneShotEnv):
        maps = draw.integers(0, task.accelerator.num_levels, (RANDOM_PLANS, task.program.num_tensors))
        return [place_mapping(task, levels).plan for levels in maps]
    wishes = draw.integers(0, 3, (RANDOM_PLANS, env.problem.num_decisions)).astype(np.int8)
    return [env.problem.plan(state) for state in finished(env.problem, wishes)]


def _cheap_s(env: Any) -> float:
    """The best plan that costs no search: greedy's maps, or the greedy player's game and XLA's option sets."""
    if isinstance(env, OneShotEnv):
        cheap: list[agents.Agent[Any]] = [agents.DensityGreedy()]
    else:
        cheap = [agents.GreedyPlayer(), *(agents.XlaMsa(each.options) for each in PUBLIC_SETS)]
    reports = [agent.solve(env, budget=10).report for agent in cheap]
    return min(report.latency_s for report in reports if report is not None)


def table(records: Sequence[Record]) -> str:
    """One line an id: speed-ups over its baseline, what roofline's plan loses, how far tiled's may be from optimal."""
    heads = [
        "id",
        "setting",
        "cheap rules",
        "roofline's plan",
        "best plan",
        "roofline's loses",
        "gap",
        "rank correlation",
    ]
    return markdown(heads, map(_row, records))


def _row(record: Record) -> list[str]:
    formulation, best_s = Formulation(record["formulation"]), record["best_s"]
    speedups = [f"{record['start_s'] / record[key]:.3f}" for key in ("cheap_s", "taken_s", "best_s")]
    gap = f"{best_s / record['bound_s'] - 1:.1%}" if record["bound_s"] else "–"
    name = formulation.traits.env_id(record["name"])
    return [
        name,
        setting_text(record),
        *speedups,
        f"{record['taken_s'] / best_s - 1:.1%}",
        gap,
        f"{record['rank']:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0, help="wall time of the exact agent, each time")
    parser.add_argument("--name", nargs="+", default=[*ONE_SHOT, *GAME], metavar="NAME", help="only these")
    parser.add_argument("--jobs", type=int, default=2, help="ids side by side, each on its own core")
    parser.add_argument("--json", action="store_true", help="print records rather than a table")
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options = parser.parse_args()
    with single_cores(options.jobs) as pool:
        records = Ledger(RESULTS, FIELDS).complete(runs(options.name, options.seconds), measure, pool)
    print("\n".join(map(json.dumps, records)) if options.json else table(records))
    if options.write:
        write_between_markers(options.write, "cost-models", table(records))


if __name__ == "__main__":
    main()
