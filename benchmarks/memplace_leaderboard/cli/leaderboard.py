"""`memplace leaderboard`: suites, submissions and the page."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env._lib.errors import LeaderboardError, MemPlaceError
from memplace_env.cli.agent_choice import look_in_this_folder
from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.shared_options import JsonFlag
from memplace_env.envs.splits import FORMULATIONS

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from memplace_leaderboard.board import Board
    from memplace_leaderboard.checks import OnProgress
    from memplace_leaderboard.submission import Submission, Training

REFUSED = 1
"""Exit code if a submission is refused, or does not come out."""

Folders = Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders that 'memplace leaderboard run' wrote.")]
Trust = Annotated[bool, typer.Option("--trust", help="Read the submissions without replaying their plans.")]
Reruns = Annotated[
    Path | None,
    typer.Option(
        "--reruns",
        metavar="FILE",
        help="Record of 'memplace leaderboard rerun' that you trust; rows that are not in it are declared.",
    ),
]

app = typer.Typer(
    help="Run agents on a suite, verify submissions of others, and draw the page.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(epilog="Example: memplace leaderboard suites")
def suites(json: JsonFlag = False) -> None:
    """List the suites with their tracks and budgets."""
    from memplace_env.report.tables import add_row, new_table
    from memplace_leaderboard.suite import load_suite, suite_names

    loaded = [load_suite(name) for name in suite_names()]
    if json:
        print_json(
            [
                {
                    "suite": suite.name,
                    "summary": suite.summary,
                    "seeds": suite.seeds,
                    "sha256": suite.sha256,
                    "instances": list(suite.instances),
                    "tracks": {
                        track.name: {
                            "summary": track.summary,
                            "budgets": [budget.text for budget in track.budgets],
                            "instances": list(suite.played(track, FORMULATIONS)),
                        }
                        for track in suite.tracks.values()
                    },
                }
                for suite in loaded
            ]
        )
        return
    shown = new_table("Suites", "suite", "track", "instances", "budgets", "summary", left=(0, 1, 3, 4))
    for suite in loaded:
        for track in suite.tracks.values():
            count = len(suite.played(track, FORMULATIONS))
            budgets = " ".join(budget.text for budget in track.budgets)
            add_row(shown, suite.name, track.name, count, budgets, track.summary)
    stdout().print(shown)


@app.command(epilog="Example: memplace leaderboard run local-search --suite quick-v1 --out out/local-search")
def run(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="A name of 'memplace agents', or module:Class.")],
    *,
    suite: Annotated[str, typer.Option("--suite", help="See 'memplace leaderboard suites'.")] = "quick-v1",
    track: Annotated[str, typer.Option("--track", help="A track of the suite.")] = "search",
    budget: Annotated[
        list[str] | None,
        typer.Option(
            "--budget",
            help="100 for plans, 10s for seconds of one core, own for what the agent takes itself; repeat.",
            show_default="those of plans; own for agents that take none",
        ),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", metavar="NAME=VALUE", help="An argument of the agent; repeat.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder of the submission.")],
    name: Annotated[str | None, typer.Option("--name", help="Name of the row.", show_default="the agent's")] = None,
    author: Annotated[list[str] | None, typer.Option("--author", help="A contact for questions; repeat.")] = None,
    link: Annotated[str, typer.Option("--link", help="A page that explains the agent.")] = "",
    licence: Annotated[str, typer.Option("--licence", help="Licence of the agent.")] = "",
    deterministic: Annotated[
        bool, typer.Option("--deterministic", help="The seed changes nothing: run seed 0 only.")
    ] = False,
    nominal: Annotated[
        bool,
        typer.Option("--nominal", help="In a black-box track: search under the cost arrays, and measure nothing."),
    ] = False,
    machines_of: Annotated[
        Path | None,
        typer.Option(
            "--machines-of",
            metavar="DIR",
            help="In a track that draws machines: take those of this submission; such a row is never ranked.",
        ),
    ] = None,
    trained_on: Annotated[
        list[str] | None, typer.Option("--trained-on", metavar="ENV", help="Id that the policy was trained on; repeat.")
    ] = None,
    training_plans: Annotated[int, typer.Option("--training-plans", min=0, help="Plans evaluated in training.")] = 0,
    training_seconds: Annotated[float, typer.Option("--training-seconds", min=0, help="Seconds of training.")] = 0.0,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes, each with a core of its own.")] = 1,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="A Ray cluster for the runs; local: one on this machine."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Try the agent on small environments first.")
    ] = True,
    json: JsonFlag = False,
) -> None:
    """Let an agent play a suite and write a submission: submission.toml, and a plan and a curve for each run.

    Called again with the same arguments, it continues where it was stopped. A judge in another process counts the plans
    that the agent evaluates, and takes the time. --json prints the folder and how many runs it has.
    """
    from memplace_env.cli.interrupts import in_thread
    from memplace_leaderboard import running
    from memplace_leaderboard.checks import expected
    from memplace_leaderboard.suite import load_suite
    from memplace_leaderboard.verifying import read

    look_in_this_folder(agent)  # the process that starts agents; nothing is imported here
    loaded = load_suite(suite)
    named: dict[str, Any] = {"name": name} if name else {}
    machines = read(machines_of) if machines_of else None
    meta = running.describe(
        loaded,
        loaded.track(track),
        agent,
        _options(option or ()),
        budget or (),
        machines=machines,
        authors=tuple(author or ()),
        link=link,
        licence=licence,
        deterministic=deterministic,
        nominal=nominal,
        training=_training(trained_on or (), training_plans, training_seconds),
        **named,
    )
    if check:
        running.check_contract(meta)
    with _progress(f"{meta.name} on {suite}") as (bar, on_progress):
        play = partial(running.run, meta, out, machines=machines, workers=workers, ray=ray, on_progress=on_progress)
        in_thread(play, bar, lambda: "the same command goes on where it was stopped")
    runs = len(list(expected(meta, loaded, loaded.track(track))))
    if json:
        print_json({"out": str(out), "name": meta.name, "runs": runs})
        return
    stdout().print(f"Written: {out}, {runs} runs. Next: memplace leaderboard verify {out}", soft_wrap=True)


@app.command(epilog="Example: memplace leaderboard verify out/local-search")
def verify(folders: Folders, json: JsonFlag = False) -> None:
    """Replay every plan of submissions and compute every figure anew; exit code 1 if anything differs.

    How plans were found cannot be replayed; 'memplace leaderboard rerun' runs the agent again. --json prints for each
    folder how many plans were replayed, and the error or null.
    """
    from memplace_leaderboard.verifying import verify_all

    with _progress("replaying") as (_, on_progress):
        replayed = verify_all(folders, on_progress)
    results = []
    for folder, outcome in zip(folders, replayed, strict=True):
        error = str(outcome) if isinstance(outcome, LeaderboardError) else None
        plans = 0 if isinstance(outcome, LeaderboardError) else len(outcome.entries)
        results.append({"folder": str(folder), "ok": error is None, "plans": plans, "error": error})
        if not json:
            line = f"refused: {error}" if error else f"ok: {folder}, {plans} plans replayed."
            stdout().print(line, soft_wrap=True)
    if json:
        print_json(results)
    if not all(result["ok"] for result in results):
        raise typer.Exit(REFUSED)


@app.command(epilog="Example: memplace leaderboard rerun out/local-search --record reruns.jsonl --budget 10")
def rerun(
    folders: Folders,
    record: Annotated[
        Path, typer.Option("--record", metavar="FILE", help="Record of reruns to write to, outside the folders.")
    ],
    budget: Annotated[
        list[str] | None, typer.Option("--budget", help="Rerun only these budgets; repeat.", show_default="all")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The module:Class of a submission: name it to allow its code to run.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes, each with a core of its own.")] = 1,
    json: JsonFlag = False,
) -> None:
    """Run the agents of submissions again, on this machine; exit code 1 if a rerun does not confirm one.

    A deterministic agent must find the same plans. Other agents run with new seeds, and their shares of the gain are
    tested against the submission's. 'table --reruns' and 'page --reruns' read the record, which names each submission
    by the hash of its files. --json prints the records and errors.
    """
    from memplace_env.cli.interrupts import in_thread
    from memplace_leaderboard.rerun_record import add_record
    from memplace_leaderboard.rerunning import run_again
    from memplace_leaderboard.verifying import verify as read_and_replay

    for folder in folders:
        if folder.resolve() in record.resolve().parents:
            raise LeaderboardError(f"--record {record} is inside {folder}, where its author could write it.")
    results: list[dict[str, Any]] = []
    for folder in folders:
        try:
            with _progress("replaying") as (_, on_progress):
                submission = read_and_replay(folder, on_progress)
            if ":" in submission.meta.agent:
                if submission.meta.agent != agent:
                    raise LeaderboardError(
                        f"{folder} names code of its own, {submission.meta.agent!r}, which would run; if you know it, "
                        f"pass --agent {submission.meta.agent}."
                    )
                look_in_this_folder(agent)
            with _progress(submission.meta.name) as (bar, on_progress):
                again = partial(run_again, folder, submission, budget or (), workers=workers, on_progress=on_progress)
                made = in_thread(again, bar, lambda: "nothing is recorded of this submission")
        except MemPlaceError as error:
            results.append({"folder": str(folder), "record": None, "error": str(error)})
            line = f"refused: {error}"
        else:
            add_record(record, made)
            results.append({"folder": str(folder), "record": asdict(made), "error": None})
            line = f"ok: {folder}, {made.runs} runs, {made.text}; mean share {made.change:+.1%}."
        if not json:
            stdout().print(line, soft_wrap=True)
    if json:
        print_json(results)
    if any(result["error"] for result in results):
        raise typer.Exit(REFUSED)


@app.command(epilog="Example: memplace leaderboard table out/local-search")
def table(
    folders: Folders,
    reruns: Reruns = None,
    every: Annotated[
        bool, typer.Option("--all", help="All suites, tracks and budgets, not only the main table of the first folder.")
    ] = False,
    trust: Trust = False,
    json: JsonFlag = False,
) -> None:
    """Print the standings as Markdown, after verifying the submissions; the row of the first folder is marked.

    Rows that were run again are ranked; declared ones are in a table below. --json prints all rows.
    """
    submissions, board = _board(folders, trust, reruns)
    if json:
        print_json(board.to_json())
        return
    sys.stdout.write(board.markdown(submissions[0].meta, every))


@app.command(epilog="Example: memplace leaderboard page out/local-search --out site")
def page(
    folders: Folders,
    out: Annotated[Path, typer.Option("--out", help="Folder of the page; index.html is in it.")],
    title: Annotated[str, typer.Option("--title", help="Title of the page.")] = "MemPlace leaderboard",
    plan_seeds: Annotated[
        int | None,
        typer.Option("--plan-seeds", min=1, help="Show plans of so many seeds only; a plan takes 2 to 50 kB."),
    ] = None,
    reruns: Reruns = None,
    mine: Annotated[bool, typer.Option("--mine", help="Mark the row of the first folder.")] = False,
    trust: Trust = False,
    json: JsonFlag = False,
) -> None:
    """Draw the leaderboard as a page that needs no server and no network, after verifying the submissions."""
    from memplace_leaderboard.page.site import check_destination, write_page

    check_destination(out)
    submissions, board = _board(folders, trust, reruns)
    with _progress("drawing plans") as (_, on_progress):
        own = submissions[0].meta if mine else None
        index = write_page(board, out, title, plan_seeds=plan_seeds, mine=own, on_progress=on_progress)
    if json:
        print_json({"page": str(index)})
        return
    stdout().print(f"Written: {index}", soft_wrap=True)


def _options(pairs: Sequence[str]) -> dict[str, Any]:
    """Return arguments of an agent: JSON values where they parse, else texts."""
    values: dict[str, Any] = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign or not name.isidentifier():
            raise LeaderboardError(f"--option {pair!r} is not of the form NAME=VALUE.")
        try:
            values[name] = jsonlib.loads(text)
        except ValueError:
            values[name] = text
    return values


def _training(ids: Sequence[str], plans: int, seconds: float) -> Training | None:
    from memplace_leaderboard.submission import Training

    if not ids and not plans:
        return None
    if not ids or not plans:
        raise LeaderboardError("--trained-on and --training-plans belong together; pass both.")
    return Training(tuple(ids), plans, seconds)


def _board(folders: Sequence[Path], trust: bool, reruns: Path | None) -> tuple[list[Submission], Board]:
    """Return the submissions, and the board of them."""
    from memplace_leaderboard.board import Board
    from memplace_leaderboard.rerun_record import read_records

    submissions = _all(folders, trust)
    return submissions, Board.of(submissions, {} if reruns is None else read_records(reruns))


def _all(folders: Sequence[Path], trust: bool) -> list[Submission]:
    """Return the submissions, or raise the first error; equal names are refused before anything is replayed."""
    from memplace_leaderboard.folder import META
    from memplace_leaderboard.meta_file import read_meta
    from memplace_leaderboard.row_names import check_unique
    from memplace_leaderboard.verifying import read, verified

    metas = [read_meta(folder / META) for folder in folders if (folder / META).is_file()]
    for where in {(meta.suite, meta.track) for meta in metas}:
        check_unique(meta.name for meta in metas if (meta.suite, meta.track) == where)
    if trust:
        return [read(folder) for folder in folders]
    with _progress("replaying") as (_, on_progress):
        return verified(folders, on_progress)


@contextmanager
def _progress(title: str) -> Iterator[tuple[Bar, OnProgress]]:
    """Show a progress bar, and yield it and what advances it."""
    from memplace_env.cli.agent_run import new_bar

    with new_bar(counted=True) as bar:
        shown = bar.add_task(title, total=None)
        yield bar, lambda done, of: bar.update(shown, completed=done, total=of)
