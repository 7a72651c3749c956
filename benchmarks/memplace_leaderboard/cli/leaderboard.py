"""`memplace leaderboard`: suites, submissions and the page."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memplace_env._lib.errors import LeaderboardError
from memplace_env.cli.agent_choice import look_in_this_folder
from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.shared_options import JsonFlag
from memplace_env.envs.splits import FORMULATIONS
from memplace_leaderboard.cli.leaderboard_board import Folders, page, replaying, table
from memplace_leaderboard.cli.leaderboard_rerun import rerun as rerun_command

if TYPE_CHECKING:
    from memplace_leaderboard.submission import Training

REFUSED = 1
"""Exit code if a submission is refused."""

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
        typer.Option("--ray", metavar="ADDRESS", help="A Ray cluster that runs them instead; local: one here."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check/--no-check", help="Try the agent on small environments first.")
    ] = True,
    json: JsonFlag = False,
) -> None:
    """Let an agent play a suite and write a submission: submission.toml, and a plan and a curve for each run.

    Called again with the same arguments it goes on where it was stopped. The plans that the agent evaluates are counted
    by a judge in another process, which takes the time too. --json prints the folder and how many runs it has.
    """
    from memplace_env.cli.agent_run import new_bar
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
    with new_bar(counted=True) as bar:
        shown = bar.add_task(f"{meta.name} on {suite}", total=None)

        def play() -> None:
            running.run(
                meta,
                out,
                machines=machines,
                workers=workers,
                ray=ray,
                on_progress=lambda done, of: bar.update(shown, completed=done, total=of),
            )

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

    with replaying() as on_progress:
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


app.command("rerun", epilog="Example: memplace leaderboard rerun out/local-search --record reruns.jsonl --budget 10")(
    rerun_command
)
app.command(epilog="Example: memplace leaderboard table out/local-search")(table)
app.command(epilog="Example: memplace leaderboard page out/local-search --out site")(page)


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
