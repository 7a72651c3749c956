"""`memplace leaderboard rerun`: run submissions again, and keep a record of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from memplace_env._lib.errors import LeaderboardError, MemPlaceError
from memplace_env.cli.agent_choice import look_in_this_folder
from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.shared_options import JsonFlag
from memplace_leaderboard.cli.leaderboard_board import Folders, replaying

REFUSED = 1
"""Exit code if a submission does not come out."""


def rerun(
    folders: Folders,
    record: Annotated[
        Path, typer.Option("--record", metavar="FILE", help="Record of reruns that is written to, outside the folders.")
    ],
    budget: Annotated[
        list[str] | None, typer.Option("--budget", help="Run these budgets again only; repeat.", show_default="all")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="The module:Class of a submission: name it to allow its code to run.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes, each with a core of its own.")] = 1,
    json: JsonFlag = False,
) -> None:
    """Run the agents of submissions again, on this machine; exit code 1 if one does not come out.

    What is deterministic has to find the same plans. Anything else is run with new seeds, and its shares of the gain
    are tested against the submission's. The record says so for 'table --reruns' and 'page --reruns'; it names each
    submission by the hash of its files. --json prints the records and errors.
    """
    from memplace_env.cli.agent_run import new_bar
    from memplace_env.cli.interrupts import in_thread
    from memplace_leaderboard.rerun_record import add_record
    from memplace_leaderboard.rerunning import run_again
    from memplace_leaderboard.verifying import verify

    for folder in folders:
        if folder.resolve() in record.resolve().parents:
            raise LeaderboardError(f"--record {record} is inside {folder}, where its author could write it.")
    results: list[dict[str, Any]] = []
    for folder in folders:
        try:
            with replaying() as on_replay:
                submission = verify(folder, on_replay)
            if ":" in submission.meta.agent:
                if submission.meta.agent != agent:
                    raise LeaderboardError(
                        f"{folder} names code of its own, {submission.meta.agent!r}, which would run; if you know it, "
                        f"pass --agent {submission.meta.agent}."
                    )
                look_in_this_folder(agent)
            with new_bar(counted=True) as bar:
                shown = bar.add_task(submission.meta.name, total=None)

                def work(folder: Path = folder, submission=submission, bar=bar, shown=shown):  # type: ignore[no-untyped-def]
                    return run_again(
                        folder,
                        submission,
                        budget or (),
                        workers=workers,
                        on_progress=lambda done, of: bar.update(shown, completed=done, total=of),
                    )

                made = in_thread(work, bar, lambda: "nothing is recorded of this submission")
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
