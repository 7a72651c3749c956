"""The figures of EGRL's paper by the best valid assignment, which the compiler kept: methods, transfer, and a picture.

The paper runs no inference on other assignments. Rules count by their plans.
"""

from __future__ import annotations

import time
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.experiments.learning import MAPS
from benchmarks.experiments.learning_runs import BEST_RULE, SEEDS, agent_of
from benchmarks.harness import Experiment, Records, data, heads, table
from benchmarks.ledger import Record
from memplace_agents.egrl import EGRL, boltzmann
from memplace_agents.learning.graph_policy import LevelNetwork, forward_of
from memplace_agents.learning.training import one_thread
from memplace_agents.search.evaluator import Evaluated, OneShotEvaluator
from memplace_env.envs.one_shot import OneShotProblem
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.report.explanation.explanation import explain_plan
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.style import LOST, MUTED, new_figure, to_png

BUDGET, LONG, LONG_SEEDS, DRAWN, SHOWN = 4_000, 10_000, 3, 100, 8
"""Assignments of a run, and of longer ones with so many seeds; those that a policy draws for a program; a run's picture
shows one in so many."""
OURS, OTHER = "egrl:imitating", "native:results-first"
"""The solver whose policies are carried over and which is drawn, and the rule over which speed-ups are counted, too."""
FIXED = {OTHER: "results-first", BEST_RULE: "best rule", "greedy-dp": "Greedy-DP"}
_HALVES = {"": "both", "-ea": "population", "-pg": "gradient"}
METHODS = {
    **{f"{OURS}{half}": f"imitating, {name}" for half, name in _HALVES.items()},
    **{f"egrl:paper{half}": f"paper, {name}" for half, name in _HALVES.items()},
    "egrl": "default",
}
"""Solvers without seeds, and with them, and their names in tables."""


def runs(records: Records = ()) -> list[Record]:
    """Return the settings: all solvers and programs with one seed come before the next seed."""
    every = [*product([0], FIXED, MAPS.values()), *product(range(SEEDS), METHODS, MAPS.values())]
    short = [{"id": env_id, "solver": solver, "seed": seed} for seed, solver, env_id in every]
    return [*short, *({**run, "plans": LONG} for run in short if run["solver"] == OURS and run["seed"] < LONG_SEEDS)]


class _Recorder(OneShotEvaluator):
    """An evaluator that keeps all assignments, with the speed-up over native of each valid one and 0 for others."""

    def __init__(self, env_id: str, seed: int, budget: int = BUDGET) -> None:
        super().__init__(env_id, budget=budget, seed=seed)
        self.tried: list[NDArray[Any]] = []
        self.speedups: list[float] = []

    def __call__(self, assignments: NDArray[np.integer]) -> Evaluated:
        result = super().__call__(assignments)
        self.tried += list(assignments[: len(result.reward)].astype(np.uint8))
        self.speedups += np.where(result.reassigned == 0, self.baseline_s / result.latency_s, 0.0).tolist()
        return result


def measure(run: Record) -> Record:
    """Return a run's setting with the speed-up over native of its best valid assignment, and its processor seconds."""
    agent, recorder = agent_of(run["solver"]), _Recorder(run["id"], run["seed"], run.get("plans", BUDGET))
    policy, began = None, time.process_time()
    if isinstance(agent, EGRL):
        with one_thread():
            training = agent.new_run([recorder], run["seed"])
            training.begin()
            while not training.done:
                training.step()
            policy = training.policy
    else:
        agent.run(recorder, run["seed"])
    best = max(recorder.speedups, default=recorder.best_speedup)
    found = {**run, "took_s": round(time.process_time() - began, 2), "repaired": recorder.best_speedup, "valid": best}
    if run["solver"] == OURS and policy is not None and "plans" not in run:
        found["transfer"] = {env_id: _carried_over(policy, env_id, run["seed"]) for env_id in MAPS.values()}
        if run["seed"] == 0:
            found |= _picture_of(recorder.env.problem, np.array(recorder.tried), np.array(recorder.speedups))
    return found


def _carried_over(policy: LevelNetwork, env_id: str, seed: int) -> float:
    """Return the speed-up of a policy's best valid assignment: its likeliest, and `DRAWN` more."""
    evaluator = _Recorder(env_id, seed)
    genome = torch.nn.utils.parameters_to_vector(policy.parameters()).detach()
    with one_thread(), torch.no_grad():
        chances = forward_of(policy, evaluator.env.problem)(genome[None]).flatten(1, 2).softmax(-1).numpy()
    evaluator(chances.argmax(-1))
    evaluator(boltzmann.sample(np.random.default_rng(seed), np.repeat(chances, DRAWN, axis=0)))
    return max(evaluator.speedups)


def _picture_of(problem: OneShotProblem, tried: NDArray[Any], speedups: NDArray[np.float64]) -> Record:
    """Return the first two principal components of some of a run's assignments, and what its best one moved."""
    some = tried[::SHOWN]
    chosen = (some[..., None] == np.arange(problem.accelerator.num_levels)).reshape(len(some), -1).astype(float)
    left, size, _ = np.linalg.svd(chosen - chosen.mean(axis=0), full_matrices=False)
    plan = problem.compile(tried[speedups.argmax()].astype(np.int64)).plan
    explanation = explain_plan(problem.task, EvaluatedPlan(plan, evaluate_plan(problem.task, plan)))
    return {
        "points": np.column_stack([left[:, :2] * size[:2], speedups[::SHOWN]]).round(3).tolist(),
        "level_names": list(explanation.level_names),
        "moved": {shift.name: shift.moved_bytes.tolist() for shift in (explanation.weights, explanation.activations)},
    }


def methods(records: Records) -> list[dict[str, str]]:
    """Return a row for each solver: speed-ups over native, the worst and the best seed, and over results-first."""
    rows = []
    shown = {(solver, None): title for solver, title in (FIXED | METHODS).items() if solver != OTHER}
    for (solver, plans), title in (shown | {(OURS, LONG): f"{METHODS[OURS]}, {LONG:,} assignments"}).items():
        by_id = {env_id: [r for r in records if r["id"] == env_id] for env_id in MAPS.values()}
        found = [[r for r in of if (r["solver"], r.get("plans")) == (solver, plans)] for of in by_id.values()]
        complete = set.intersection(*({record["seed"] for record in of_id} for of_id in found))
        if not complete:  # not measured yet
            continue
        found = [[record for record in of_id if record["seed"] in complete] for of_id in found]
        valid = [[record["valid"] for record in of_id] for of_id in found]
        base = [r["valid"] for env_id in MAPS.values() for r in records if (r["solver"], r["id"]) == (OTHER, env_id)]
        cells = [f"{np.mean(v):.3f}" + f" [{min(v):.3f}, {max(v):.3f}]" * (len(v) > 1) for v in valid]
        over = " / ".join(f"{np.mean(values) / other:.2f}" for values, other in zip(valid, base, strict=True))
        took = np.mean([record["took_s"] for of_id in found for record in of_id])
        seeds = {"seeds": str(len(complete)), "s": f"{took:.1f}"}
        rows.append({"solver": title} | dict(zip(MAPS, cells, strict=True)) | {"over results-first": over} | seeds)
    return rows


def transfer(records: Records) -> list[dict[str, str]]:
    """Return a row for each program that policies were trained on, with the means of their seeds."""
    by_id = {name: [r["transfer"] for r in records if r["id"] == i and "transfer" in r] for name, i in MAPS.items()}
    return [
        {"trained on": name} | {other: f"{np.mean([of[i] for of in found]):.3f}" for other, i in MAPS.items()}
        for name, found in by_id.items()
    ]


def picture(records: Records) -> bytes:
    """Return a run's assignments by validity and speed-up, and the bytes that its best one moved between levels."""
    record = next(record for record in records if "points" in record)
    points, names, figure = np.array(record["points"]), record["level_names"], new_figure(1500, 420)
    first, *others = figure.subplots(1, 3, width_ratios=(1.4, 1, 1))
    valid = points[:, 2] > 0
    first.scatter(*points[~valid, :2].T, s=9, color=LOST, alpha=0.5, label="not valid")
    shown = first.scatter(*points[valid, :2].T, s=9, c=points[valid, 2], label="valid")
    figure.colorbar(shown, ax=first, label="speed-up over native")
    first.set_title("Assignments of a run, two principal components")
    first.legend()
    for axis, (kind, moved) in zip(others, record["moved"].items(), strict=True):
        shares = np.array(moved) / max(np.sum(moved), 1)
        axis.imshow(shares, cmap="Blues", vmin=0, vmax=1)
        for (row, column), share in np.ndenumerate(shares):
            axis.text(column, row, f"{share:.0%}", ha="center", va="center", color="white" if share > 0.5 else MUTED)
        axis.set(title=f"Bytes of {kind}", xlabel="level in the best valid assignment", ylabel="level in native's plan")
        axis.set_xticks(range(len(names)), names)
        axis.set_yticks(range(len(names)), names)
    figure.tight_layout()
    return to_png(figure)


PAGES = {
    "docs/how-it-is-solved.md#egrl-paper": table(heads, methods),
    "docs/data/egrl-transfer.csv": data(heads, transfer),
    "docs/pictures/egrl-paper.png": picture,
}
ABOUT = f"The figures of EGRL's paper on its three programs, {BUDGET:,} assignments, by the best valid assignment."
EXPERIMENTS = [Experiment("egrl-paper", ABOUT, PAGES, runs, measure, key=("id", "solver", "seed", "plans"))]
