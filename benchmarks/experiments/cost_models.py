"""Plans chosen under roofline costs, evaluated by tiled costs, on the ids of `suite.FIRST` on chips with tiling.

For each id the exact agent searches for the fastest plan under either model, with the same time limit. For one-shot ids
the levels of roofline's plan are compiled again under tiled costs. For games the plan itself is taken; where it uses
bytes that tiled costs reserve for staging, its preferred actions are played as a game instead. Random plans are random
assignments and random games, made under tiled costs and evaluated under both models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import spearmanr

import memplace_agents
from benchmarks.experiments.suite import FIRST
from benchmarks.harness import Columns, Experiment, Records, data, field, setting_text, table
from benchmarks.ledger import SETTING, Record
from memplace_agents.search.cheap_plans import cheap_plans
from memplace_agents.search.preferences import finished
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.malloc_game.plan_actions import preferences_of_plan
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import evaluate_plan, evaluate_plans
from memplace_env.placement.validation.validator import violations
from memplace_env.program.model_file import as_written

RANDOM_PLANS = 200
SECONDS = 4.0
"""Time limit of the exact agent, each time."""
SHOWN_IDS = (
    "MemPlace-ResNet50-v0", "MemPlace-BERT-v0", "MemPlace-MobileNetV2-v0", "MemPlace-AlexNet-v0",
    "MemPlace-Swin-tiny-v0", "MemPlace-T5-small-ethos-u65-v0", "MallocGame-BERT-v0", "MallocGame-T5-small-v0",
    "MallocGame-BERT-ethos-u65-v0", "MallocGame-ResNet50-intel-npu-4000-v0",
)  # fmt: skip
"""Rows of the document's table; docs/data/cost-models.csv has all."""
ENVS: dict[str, type[OneShotEnv] | type[MallocGameEnv]] = {"one-shot": OneShotEnv, "game": MallocGameEnv}


def settings(records: Records = ()) -> list[Record]:
    """Return the settings of the ids on chips that have tiling."""
    return [
        {
            "name": name,
            "formulation": str(formulation),
            "workload": name,
            "accelerator": formulation.traits.accelerator,
            **setting,
            "seconds": SECONDS,
        }
        for formulation in (Formulation.ONE_SHOT, Formulation.GAME)
        for name, setting in formulation.traits.settings.items()
        if any(name in names for names in FIRST.values())
        and load_accelerator(setting.get("accelerator", formulation.traits.accelerator)).tiling
    ]


def measure(run: Record) -> Record:
    """Return latencies under tiled costs, in seconds, and the rank correlation of random plans under both models."""
    make, settings = ENVS[run["formulation"]], {key: run[key] for key in SETTING if key in run}
    settings |= as_written(settings["accelerator"])
    tiled, roofline = (make(**settings, costs=model) for model in ("tiled", "roofline"))
    chosen = {env: memplace_agents.Exact().solve(env, time_limit=run["seconds"]) for env in (tiled, roofline)}
    taken = _taken_over(tiled, chosen[roofline].plan)
    plans, cheap_s = _random_plans(tiled), _cheap_s(tiled)
    taken_s = evaluate_plan(tiled.task, taken).latency_s
    ranks = [[report.latency_ps for report in evaluate_plans(env.task, plans)] for env in (tiled, roofline)]
    return {
        **run,
        "start_s": chosen[tiled].native_latency_s,
        "cheap_s": cheap_s,
        "taken_s": taken_s,
        "best_s": min(taken_s, cheap_s, chosen[tiled].report.latency_s),
        "bound_s": chosen[tiled].bound_s,
        "rank": float(spearmanr(*ranks)[0]),
    }


def _taken_over(env: Any, plan: MemoryPlan) -> MemoryPlan:
    """Return another model's plan on this environment's task."""
    if env.formulation is Formulation.ONE_SHOT:
        program = env.task.program
        levels = np.full(program.num_tensors, env.task.backing)
        np.minimum.at(levels, program.use_tensor, plan.use_level)
        return place_levels(env.task, levels).plan
    if not violations(env.task, plan):
        return plan
    return env.problem.plan(finished(env.problem, preferences_of_plan(env.problem, plan)[None])[0])


def _random_plans(env: Any) -> list[MemoryPlan]:
    draw, task = np.random.default_rng(0), env.task
    if env.formulation is Formulation.ONE_SHOT:
        drawn = draw.integers(0, task.accelerator.num_levels, (RANDOM_PLANS, task.program.num_tensors))
        return [place_levels(task, levels).plan for levels in drawn]
    preferences = draw.integers(0, 3, (RANDOM_PLANS, env.problem.num_decisions)).astype(np.int8)
    return [env.problem.plan(state) for state in finished(env.problem, preferences)]


def _cheap_s(env: Any) -> float:
    """Return the latency of the best plan of all rules without a search."""
    return min(report.latency_s for report in evaluate_plans(env.task, list(cheap_plans(env.problem).values())))


def speedup(key: str) -> Callable[[Record], str]:
    """Return a cell: the speed-up of a plan over the baseline under tiled costs."""
    return lambda record: f"{record['start_s'] / record[key]:.3f}"


def env_id(record: Record) -> str:
    """Return the id of a record."""
    return Formulation(record["formulation"]).traits.env_id(record["name"])


def _loss(record: Record) -> float:
    """Return how much slower roofline's plan is than the best known one under tiled costs, as a fraction."""
    return float(record["taken_s"] / record["best_s"] - 1)


def losses(records: Records) -> str:
    """Return what roofline's plans lose, chip by chip."""
    lines = []
    for chip in dict.fromkeys(record["accelerator"] for record in records):
        group = [record for record in records if record["accelerator"] == chip]
        slower, ranks = sum(record["taken_s"] > record["cheap_s"] for record in group), [r["rank"] for r in group]
        lines.append(
            f"- {chip}, {len(group)} {'id' if len(group) == 1 else 'ids'}: roofline's plan loses at most "
            f"{max(map(_loss, group)):.1%}, and is slower than the best rule's on {slower}; rank correlation from "
            f"{min(ranks):.2f} to {max(ranks):.2f}"
        )
    return "\n".join(lines)


COLUMNS: Columns = {
    "id": env_id,
    "setting": setting_text,
    "best rule": speedup("cheap_s"),
    "roofline's plan": speedup("taken_s"),
    "best plan": speedup("best_s"),
    "roofline's loses": lambda record: f"{_loss(record):.1%}",
    "gap": lambda record: f"{record['best_s'] / record['bound_s'] - 1:.1%}" if record["bound_s"] else "–",
    "rank correlation": field("rank", ".2f"),
}
EXPERIMENTS = [
    Experiment(
        "cost-models",
        __doc__,
        {
            "docs/model.md#cost-models": table(
                COLUMNS, lambda records: [r for r in records if env_id(r) in SHOWN_IDS], losses
            ),
            "docs/data/cost-models.csv": data(COLUMNS),
        },
        settings,
        measure,
        key=("name", "formulation", *SETTING, "seconds"),
    )
]
