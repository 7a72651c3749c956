"""A small leaderboard with real plans, for the tests of its page."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import gymnasium as gym

import memplace_agents
from memplace_env.envs.best_known import Known
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import Split
from memplace_leaderboard.entry import Entry, Point
from memplace_leaderboard.leaderboard_tables import Remarks
from memplace_leaderboard.page.data import PageData, page_data
from memplace_leaderboard.rerun_record import RerunRecord
from memplace_leaderboard.standings import standings
from memplace_leaderboard.submission import Meta, Submission, Training
from memplace_leaderboard.suite import Budget, Instance, Suite, Track

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028&amp;<b>bold</b>"
LONG = "A-name-that-nobody-can-read-in-a-narrow-column-because-it-does-not-end-for-a-long-time"
RECORD = RerunRecord(
    "0" * 64, "", "fixture-v1", "search", ("50",), 4, "two-sample", 0.4, 0.0, "2026-01-31", "0", "a machine, 2 cores"
)
ONE_SHOT, GAME = Formulation.ONE_SHOT, Formulation.GAME
IDS = {
    "MemPlace-ResNet50-v0": ONE_SHOT,
    "MemPlace-TCN-LM-v0": ONE_SHOT,
    "MemPlace-NeRF-intel-npu-4000-v0": ONE_SHOT,
    "MemPlace-Evoformer-pairs-edge-tpu-v0": ONE_SHOT,
    "MallocGame-R3D-18-edge-tpu-v0": GAME,
    "MallocGame-Evoformer-pairs-v0": GAME,
}
PLAYERS = {
    "density-greedy": ("own", (0,), lambda: memplace_agents.DensityGreedy(), (ONE_SHOT,)),
    "greedy-player": ("own", (0,), lambda: memplace_agents.GreedyPlayer(), (GAME,)),
    "xla-msa": ("own", (0,), lambda: memplace_agents.XlaMsa(), (GAME,)),
    "local-search": ("50", (0, 1), lambda: memplace_agents.LocalSearch(), (ONE_SHOT,)),
    "game-search": ("50", (0, 1), lambda: memplace_agents.GameLocalSearch(), (GAME,)),
    HOSTILE: ("50", (0, 1), lambda: memplace_agents.RandomSearch(), (ONE_SHOT,)),
    LONG: ("10", (0, 1), lambda: memplace_agents.RandomSearch(), (ONE_SHOT,)),
}


@cache
def task_of(env_id):
    return gym.make(f"memplace_env:{env_id}", disable_env_checker=True).unwrapped.task


def ps(seconds):
    return round(seconds * 1e12)


@cache
def entry(name, env_id, budget, seed):
    make = PLAYERS[name][2]
    solution = make().solve(env_id, budget=int(budget) if budget != "own" else 50, seed=seed)
    curve = tuple(Point(each.evaluations, each.seconds, ps(each.latency_s)) for each in solution.history)
    # Seconds are set: what is tested on bytes may not depend on the clock.
    return Entry(
        env_id, budget, seed, solution.plan, solution.report.latency_ps, solution.evaluations, 0.25 + seed, curve
    )


def submission(name, number):
    budget, seeds, _, formulations = PLAYERS[name]
    meta = Meta(
        name=name,
        agent="module:Class",
        suite="fixture-v1",
        suite_sha256="0" * 64,
        track="search",
        formulations=formulations,
        budgets=(budget,),
        seeds=seeds,
        memplace="0",
        authors=("Ada Example", HOSTILE) if name == HOSTILE else ("MemPlace",),
        link=("javascript:alert(1)", "https://example.org/work")[number % 2],
        training=Training(("MemPlace-VGG16-v0",), 1000, 60.0) if name == LONG else None,
    )
    ids = [env_id for env_id, formulation in IDS.items() if formulation in formulations]
    entries = tuple(entry(name, env_id, budget, seed) for env_id in ids for seed in seeds)
    rerun = RECORD if name in ("local-search", "game-search") else None
    return Submission(meta, entries, rerun=rerun, computed=budget == "own")


def suite():
    instances = {}
    for env_id, formulation in IDS.items():
        task = task_of(env_id)
        baseline = memplace_agents.GreedyPlayer().solve(env_id) if formulation is GAME else None
        ps_ = (
            ps(baseline.native_latency_s)
            if baseline
            else ps(memplace_agents.DensityGreedy().solve(env_id, budget=1).native_latency_s)
        )
        name = env_id.split("-", 1)[1].removesuffix("-v0").removesuffix(f"-{task.accelerator.name}")
        instances[env_id] = Instance(
            env_id, formulation, name, task.accelerator.name, name.split("-")[0], Split.TEST,
            task.program.num_ops, task.program.sha256, task.accelerator.sha256, "0" * 64, ps_,
        )  # fmt: skip
    track = Track("search", "Each environment by itself; the cost arrays may be read.", (Budget("10"), Budget("50")))
    quiet = Track("black-box", "A slow and noisy machine.", (Budget("20"),), noise=0.02, machine="factors")
    return Suite("fixture-v1", "a fixture", 2, {"search": track, "black-box": quiet}, instances, "0" * 64)


@cache
def small_board():
    the_suite = suite()
    submissions = tuple(submission(name, number) for number, name in enumerate(PLAYERS))
    best = {env_id: min(e.latency_ps for s in submissions for e in s.entries if e.env_id == env_id) for env_id in IDS}
    known = {env_id: Known(round(ps_ * 1.01), round(ps_ * 0.98), round(ps_ * 0.95)) for env_id, ps_ in best.items()}
    baselines = {env_id: each.baseline_ps for env_id, each in the_suite.instances.items()}
    against = {"baselines": {"search": baselines, "black-box": {}}, "known": {"search": known, "black-box": {}}}
    rows = standings(the_suite, submissions, **against, resamples=200)
    return SimpleNamespace(
        suite=the_suite,
        submissions=submissions,
        tracks=["search", "black-box"],
        rows=rows,
        remarks=lambda mine=None: Remarks(),
        **against,
    )


def small_page(**changes) -> PageData:
    data = page_data("MemPlace leaderboard", [small_board()], task_of)
    return replace(data, **changes)
