"""The application: its commands and, for all of them, how errors end.

Exit codes: 0 done; 1 `validate` found violations, `execute` a wrong result, or a search ended without a plan; 2 bad
input, with one sentence on stderr; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from memplace_env import __version__
from memplace_env.cli import calibrate, execute, explain, inspect, leaderboard, lists, plans, play, render, solve, train
from memplace_env.errors import MemPlaceError

BAD_INPUT, INTERRUPTED = 2, 130

# The base of all errors about arguments: click's own, or its copy in newer releases of Typer.
_ArgumentError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


class _Group(TyperGroup):
    """Turns every foreseen failure into one sentence on stderr and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        del standalone_mode  # it would let Typer report errors in its own way
        try:
            code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except _ArgumentError as error:
            sys.exit(_fail(error.format_message().replace(": Value error, ", ": ")))
        except MemPlaceError as error:
            sys.exit(_fail(str(error)))
        except BrokenPipeError:
            # Nobody reads any more; without this the interpreter complains when it flushes stdout at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except OSError as error:
            what = f"use {error.filename}" if error.filename else "write the output"
            sys.exit(_fail(f"Cannot {what}: {error.strerror or error}"))
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        if code == INTERRUPTED:
            sys.stderr.write("memplace: interrupted.\n")
        sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> int:
    sentence = " ".join(message.split()).removesuffix(".")
    sys.stderr.write(f"memplace: {sentence}{'' if sentence.endswith('?') else '.'}\n")
    return BAD_INPUT


app = typer.Typer(
    cls=_Group,
    name="memplace",
    add_completion=False,
    rich_markup_mode="markdown",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (solve, train, leaderboard, inspect, calibrate, plans, execute, explain, play, render, lists):
    module.register(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"memplace {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: memplace solve BERT")
def memplace(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Decide where a neural network's tensors live in an accelerator's memories, so that it runs faster."""
    del version
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Entry point of the console script."""
    app(prog_name="memplace")
