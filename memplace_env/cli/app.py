"""The application: its commands and, for all of them, how errors end.

Exit codes: 0 done; 1 `validate` found violations, `execute` a wrong result, or a search ended without a plan; 2 bad
input, with one sentence on stderr; 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from memplace_env import __version__
from memplace_env.cli import (
    calibrate,
    execute,
    explain,
    export,
    inspect,
    leaderboard,
    lists,
    plans,
    play,
    render,
    solve,
    train,
)
from memplace_env.cli.interrupts import Interrupted
from memplace_env.errors import MemPlaceError
from memplace_env.foreign import shown

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
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except _ArgumentError as error:
            sys.exit(_fail(error.format_message().replace(": Value error, ", ": ")))
        except MemPlaceError as error:
            sys.exit(_fail(str(error)))
        except MemoryError as error:
            sys.exit(_fail(f"There is not enough memory: {error or 'ask for less'}"))
        except BrokenPipeError:
            _forget_output()
            sys.exit(1)
        except OSError as error:
            if error.filename is None:
                _forget_output()
            sys.exit(_fail(f"Cannot {_attempted(error)}: {error.strerror or error}"))
        except Interrupted as error:
            _say(f"interrupted, {error}")
            sys.exit(INTERRUPTED)
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        if code == INTERRUPTED:  # so newer releases of Typer end
            _say("interrupted")
        sys.exit(code if isinstance(code, int) else 0)


def _attempted(error: OSError) -> str:
    """What an operation that failed was about."""
    if error.filename is not None:
        return f"use {os.fsdecode(error.filename)!r}" if error.filename else "use a file without a name"
    try:
        os.getcwd()
    except OSError:
        return "work in a folder that is gone"
    return "write the output"


def _fail(message: str) -> int:
    _say(message)
    return BAD_INPUT


def _say(message: str) -> None:
    """One sentence on stderr; if nobody can read it, none."""
    sentence = shown(message).removesuffix(".")
    with suppress(OSError):
        sys.stderr.write(f"memplace: {sentence}{'' if sentence.endswith('?') else '.'}\n")
        sys.stderr.flush()


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """A library's warning, in place of one with its source code."""
    _say(f"warning: {message}")


def _forget_output() -> None:
    """Nobody takes it any more; without this the interpreter complains when it flushes stdout at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=_Group,
    name="memplace",
    add_completion=False,
    rich_markup_mode="markdown",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (solve, train, leaderboard, inspect, calibrate, plans, explain, execute, export, play, render, lists):
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
