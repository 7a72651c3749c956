"""Our own submissions to the leaderboard: tables of the main suites, and the rows of all.

Plans are not replayed here: the tests do that, and `memplace leaderboard verify benchmarks/submissions/*`. Rows that
were run again are those of benchmarks/reruns.jsonl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import numpy as np
import tomlkit

from benchmarks.experiments import compiled, event, game_replay, learning, proofs, sliced_ids, suite
from benchmarks.harness import ROOT, Experiment, Records, data, table
from benchmarks.ledger import Record
from memplace_env._lib.units import PS
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS
from memplace_env.placement.compiler import all_backing_report, native_report
from memplace_env.placement.simulator import evaluate_plan
from memplace_leaderboard.board import Board
from memplace_leaderboard.folder import META
from memplace_leaderboard.meta_file import read_meta
from memplace_leaderboard.pinned import task_of
from memplace_leaderboard.rerun_record import read_records
from memplace_leaderboard.standings import StandingsRow
from memplace_leaderboard.submission import Submission
from memplace_leaderboard.suite import load_suite, suite_names
from memplace_leaderboard.verifying import read

SUBMISSIONS: Final = ROOT / "benchmarks" / "submissions"
RERUNS: Final = ROOT / "benchmarks" / "reruns.jsonl"
"""The record of our own reruns; see `memplace_leaderboard.rerun_record`."""
DRAWN: Final = "black-box-v2"
"""The suite whose machines are drawn: its table has a column for each of them."""
HEADS: Final = ("suite", *(field.name for field in fields(StandingsRow) if field.name != "left_out"))
PLAYERS: Final = ("cross-entropy", "egrl", "game-local-search", "local-search", "muzero", "plan-gradient", "ppo")
"""Agents whose plans end episodes, but for those of the rules that they begin with."""
RANDOM: Final = 100
"""Random games or assignments whose mean return an id's row has."""
NAMES: Final = {Formulation.ONE_SHOT: "Maps", Formulation.GAME: "Games"}


def folders(suite: str) -> list[Path]:
    """Return the folders of our submissions to a suite."""
    return sorted(path.parent for path in SUBMISSIONS.glob(f"*/{META}") if read_meta(path).suite == suite)


@cache
def submissions(suite: str) -> list[Submission]:
    """Return our submissions to a suite."""
    return [read(folder) for folder in folders(suite)]


@cache
def board(suite: str) -> Board:
    """Return the board of our submissions to a suite, with the record of our reruns."""
    return Board.of(submissions(suite), read_records(RERUNS))


def main_table(suite: str) -> Callable[[Records], str]:
    """Return what makes the main table of a suite's search track."""

    def render(records: Records) -> str:
        first = next(played.meta for played in submissions(suite) if played.meta.track == "search")
        return board(suite).markdown(first, every=False, marked=False).strip()

    return render


def shares(records: Records) -> str:
    """Return the shares of the gain on drawn machines, a table for each formulation and a column for each track."""
    rows, parts = board(DRAWN).suites[0].rows, []
    for kind in FORMULATIONS:
        found = {(r.submission, r.played_budget, r.track): r for r in rows if r.formulation is kind}
        last = {(name, budget): row.share for (name, budget, _), row in found.items()}
        columns = {"row": _label} | {track: partial(_share, found, track) for track in load_suite(DRAWN).tracks}
        names: Any = sorted(last, key=last.__getitem__)
        parts += [f"{NAMES[kind]}, share of the gain in percent:", str(table(columns)(names))]
    return "\n\n".join(parts)


def _label(row: tuple[str, str]) -> str:
    name, budget = row
    return name if budget == "own" else f"{name}, {budget}"


def _share(found: dict[tuple[str, str, str], StandingsRow], track: str, row: tuple[str, str]) -> str:
    """Return a row's share in a track."""
    one = found.get((*row, track))
    if one is None:
        return "–"
    interval = "" if one.low is None or one.high is None else f" [{100 * one.low:.0f}, {100 * one.high:.0f}]"
    return f"{100 * one.share:.1f}{interval}"


def all_rows(records: Records) -> list[Record]:
    """Return the rows of all suites."""
    return [{"suite": name, **asdict(row)} for name in suite_names() for row in board(name).suites[0].rows]


def figure(head: str) -> Callable[[Record], str]:
    """Return a cell of a row."""

    def cell(row: Record) -> str:
        value = round(row[head], 5) if isinstance(row[head], float) else row[head]
        return "" if value is None else str(value)

    return cell


def campaigns() -> dict[str, dict[str, int]]:
    """Return what the experiments of ids know of each: cheap, best and bound in ps."""
    found = {}
    for record in suite.chosen(suite.EXPERIMENTS[0].recorded()):
        env_id = Formulation(record["formulation"]).traits.env_id(suite.id_name(record))
        found[env_id] = record["cheap_s"], suite.best_s(record), record["bound_s"]
    for record in filter(sliced_ids.has_id, sliced_ids.EXPERIMENTS[0].recorded()):
        env_id = sliced_ids.env_id(record, f"-{sliced_ids.END}")
        found[env_id] = record["cheap_s"], sliced_ids.best_s(record), record["bound_s"]
    for record in compiled.chosen(compiled.EXPERIMENTS[0].recorded()):
        found[compiled.env_id(record)] = record["cheap_s"], suite.best_s(record), record["bound_s"]
    for env_id, result in event.with_ids().items():  # the plan that can be shown, and the simulator's own bound
        plan = proofs.kept_plan(env_id)
        assert plan is not None, f"best-plans.zip has no plan of {env_id}; the experiment event keeps one"
        best = evaluate_plan(task_of(env_id), plan)
        found[env_id] = result.runs[event.BEST_RULE][0]["latency_s"], best.latency_s, best.traffic_bound_ps * PS
    names = "cheap_ps", "best_ps", "bound_ps"
    return {
        env_id: {name: round(time_s / PS) for name, time_s in zip(names, times, strict=True)}
        for env_id, times in found.items()
    }


def played(suites: tuple[str, ...]) -> Iterator[tuple[str, int, bool]]:
    """Yield ids, latencies in ps of recorded plans, and True if that ends a game even where a rule's plan is faster.

    They are of the learning campaign, of plans that were followed as games, of local search on the event simulator, and
    of submissions; see `PLAYERS`.
    """
    ledgers = {experiment.ledger or experiment.name: experiment for experiment in learning.EXPERIMENTS}
    for run in chain.from_iterable(experiment.open().records for experiment in ledgers.values()):
        if run["solver"] in PLAYERS and "latency_ps" in run:
            yield run["id"], run["latency_ps"], False
    for run in game_replay.EXPERIMENTS[0].recorded():
        yield run["id"], run["game_ps"], True
        yield run["id"], run["annealed_ps"], False
    for env_id, result in event.with_ids().items():
        for run in chain.from_iterable(result.runs[solver] for solver in event.SEARCHES):
            yield env_id, round(run["latency_s"] / PS), False
    for submission in (one for name in suites for one in submissions(name) if one.meta.agent in PLAYERS):
        if load_suite(submission.meta.suite).track(submission.meta.track).machine is None:
            yield from ((entry.env_id, entry.latency_ps, False) for entry in submission.entries)


@cache
def baseline(env_id: str) -> dict[str, float]:
    """Return the latency that returns are relative to, and the mean return of `RANDOM` games or assignments."""
    env: Any = gym.make(env_id).unwrapped
    if env.formulation == Formulation.GAME:
        states = env.problem.new_states(RANDOM)
        env.problem.finish_randomly(states, seed=0)
        returns, report = env.return_of(env.problem.latency_s(states), env.problem, env.scale), all_backing_report
    else:
        levels = np.random.default_rng(0).integers(env.action_space.nvec, size=(RANDOM, len(env.action_space.nvec)))
        returns, report = env.score(levels)[0], native_report
    return {"baseline_ps": report(env.task).latency_ps, "random_return": float(f"{returns.mean():.4g}")}


def known(records: Records = (), suites: tuple[str, ...] = tuple(suite_names())) -> str:
    """Return best-known.toml: each instance's best plan, bound and best game of campaigns, proofs and submissions.

    Args:
        records: not used.
        suites: suites whose submissions count.

    Raises:
        SystemExit: if a plan is faster than a bound, or a proof has no plan.
    """
    found = campaigns()
    for env_id, bound_ps in proofs.bounds_ps().items():
        plan = proofs.kept_plan(env_id)
        if plan is None:
            raise SystemExit(f"{env_id} has a record of the experiment proofs, but no plan in best-plans.zip.")
        found[env_id]["bound_ps"] = bound_ps
        found[env_id]["best_ps"] = min(found[env_id]["best_ps"], evaluate_plan(task_of(env_id), plan).latency_ps)
    for env_id, row in found.items():
        row.update(baseline(env_id))
    for name in suites:
        for submission in submissions(name):
            if load_suite(name).track(submission.meta.track).machine is None:  # else plans are for other machines
                for entry in submission.entries:
                    found[entry.env_id]["best_ps"] = min(found[entry.env_id]["best_ps"], entry.latency_ps)
    for env_id, latency_ps, is_game in played(suites):
        row = found.get(env_id)
        if row and (is_game or latency_ps < row["cheap_ps"]):
            row["reachable_ps"] = max(min(latency_ps, row.get("reachable_ps", latency_ps)), row["best_ps"])
    for env_id, row in found.items():
        if row["bound_ps"] > row["best_ps"]:
            raise SystemExit(f"{env_id}: a plan takes {row['best_ps']} ps, below the bound, {row['bound_ps']} ps.")
    return tomlkit.dumps(found)


EXPERIMENTS = [
    Experiment(
        "leaderboard",
        __doc__,
        {
            **{f"docs/leaderboard.md#{name}": main_table(name) for name in ("one-shot-v1", "game-v1", "quick-v2")},
            f"docs/bring-your-own.md#{DRAWN}": shares,
            "docs/data/leaderboard.csv": data({head: figure(head) for head in HEADS}, all_rows),
        },
    ),
    Experiment(
        "best-known",
        "Best known plans and bounds of the leaderboard's instances; their plans are replayed.",
        {"memplace_env/envs/best-known.toml": known},
    ),
]
