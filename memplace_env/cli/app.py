"""The application: its commands, and how errors of all of them end.

Exit codes: 0 done; 1 `validate` found violations, `execute` a wrong result, `prove` a faster plan, or a search ended
without a plan; 2 bad input, with one sentence on stderr; 3 `pack` proved that nothing fits, 4 it found nothing;
130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from memplace_env._lib.compilation import say_when_compiling
from memplace_env._lib.errors import MemPlaceError
from memplace_env._lib.foreign import shown
from memplace_env._lib.plugins import COMMANDS, installed, load_plugin
from memplace_env._lib.version import __version__
from memplace_env.cli import (
    advise,
    calibrate,
    dataset,
    execute,
    explain,
    export,
    inspect_command,
    lists,
    pack,
    plan_commands,
    play,
    prove,
    render,
    size,
    solve,
    train,
    warm_up,
)
from memplace_env.cli.console import show_warnings
from memplace_env.cli.interrupts import INTERRUPTED, Interrupted

BAD_INPUT = 2
"""Exit code for input that cannot be used."""

# The base class of errors about arguments: click's own, or the copy of it in newer releases of Typer.
_ArgumentError: Any = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


class _Group(TyperGroup):
    """A group of commands that reports every foreseen failure as one sentence on stderr and an exit code."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        del standalone_mode  # with it, Typer reports errors in its own way
        try:
            say_when_compiling()
            with warnings.catch_warnings():
                warnings.showwarning = _show_warning
                code = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
            sys.stdout.flush()
        except _ArgumentError as error:
            said = error.format_message().replace(": Value error, ", ": ")
            if said.startswith("Missing "):
                said = f"{said.removesuffix('.')}; see '{error.ctx.command_path} --help'."
            sys.exit(_fail(said))
        except MemPlaceError as error:
            sys.exit(_fail(str(error)))
        except MemoryError as error:
            sys.exit(_fail(f"There is not enough memory: {str(error).strip() or 'try a smaller problem'}"))
        except RuntimeError as error:
            if "can't start new thread" not in str(error):
                raise
            sys.exit(_fail("There is not enough memory for another thread, or a limit on threads: raise it (ulimit)."))
        except BrokenPipeError:
            _forget_output()
            sys.exit(1)
        except OSError as error:
            if error.filename is None:
                _forget_output()
            sys.exit(_fail(f"Cannot {_attempted(error)}: {error.strerror or error}"))
        except Interrupted as error:
            _report(f"interrupted, {error}")
            sys.exit(INTERRUPTED)
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        if code == INTERRUPTED:  # newer releases of Typer return it
            _report("interrupted")
        sys.exit(code if isinstance(code, int) else 0)


def _attempted(error: OSError) -> str:
    """Return what a failed operation attempted."""
    if error.filename is not None:
        return f"use {os.fsdecode(error.filename)!r}" if error.filename else "use a file without a name"
    try:
        os.getcwd()
    except OSError:
        return "work in a folder that is gone"
    return "write the output"


def _fail(message: str) -> int:
    _report(message)
    return BAD_INPUT


def _report(message: str) -> None:
    """Write one sentence to stderr, if that is still open."""
    sentence = shown(message).removesuffix(".")
    with suppress(OSError):
        sys.stderr.write(f"memplace: {sentence}{'' if sentence.endswith('?') else '.'}\n")
        sys.stderr.flush()


def _show_warning(message: Warning | str, *where: Any, **more: Any) -> None:
    """Report a library's warning without the source code that caused it."""
    _report(f"warning: {message}")


def _forget_output() -> None:
    """Redirect a closed stdout to nowhere, which the interpreter flushes at exit."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    cls=_Group,
    name="memplace",
    rich_markup_mode="markdown",
    invoke_without_command=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_PANELS: dict[str, dict[Callable[..., None], str]] = {
    "Find a plan": {
        advise.advise: "memplace advise BERT",
        solve.solve: "memplace solve BERT --agent greedy-dp --budget 4000 --out out/bert",
        prove.prove: "memplace prove BERT --second-opinion; your plan: memplace prove BERT --plan plan.json",
        size.size: "memplace size MobileNetV2 --accelerator ethos-u65",
        pack.pack: "memplace pack blocks.csv --capacity 1048576 --out packed.csv",
        inspect_command.inspect: "memplace inspect BERT --batch 8 --dim sequence=384",
        calibrate.calibrate: "memplace calibrate measured.csv --accelerator nnp-i",
        play.play: "memplace play SqueezeNet --accelerator edge-tpu --skip-forced --out plan.json",
    },
    "Look at plans": {
        plan_commands.simulate: "memplace simulate out/BERT-nnp-i/plan.json",
        plan_commands.validate: "memplace validate out/BERT-nnp-i/plan.json",
        plan_commands.compare: "memplace compare first/plan.json second/plan.json",
        explain.explain: "memplace explain out/BERT-nnp-i/plan.json",
        execute.execute: "memplace execute out/BERT-nnp-i/plan.json",
        export.export: "memplace export out/BERT-nnp-i/plan.json --format c --out bert_plan.h; for TensorFlow Lite "
        "Micro: memplace export net.tflite plan.json --format tflite --out planned.tflite",
        render.render: "memplace render SqueezeNet --accelerator edge-tpu --out game.gif",
    },
    "Train": {
        train.train: "memplace train egrl MemPlace-BERT-v0 --budget 4000 --seeds 3 --out out/bert",
        dataset.dataset: "memplace dataset MallocGame-BERT-v0 --agent exact --episodes 100 --out out/bert; then "
        'in Python: minari.MinariDataset("out/bert/data")',
        dataset.offline_suite: "memplace offline-suite --out out/offline",
    },
    "Install": {
        warm_up.warm_up: "memplace warm-up",
    },
    "Lists": {
        lists.workloads: "memplace workloads --family ResNet --details",
        lists.accelerators: "memplace accelerators",
        lists.envs: "memplace envs --suite game-test",
        lists.agents: "memplace agents",
    },
}
"""Commands and an example of each, by the panel of the help that lists them."""

for panel, commands in _PANELS.items():
    for command, example in commands.items():
        app.command(rich_help_panel=panel, epilog=f"Example: {example}")(command)
    if panel == "Train":
        for name in installed(COMMANDS):
            try:
                group = load_plugin(COMMANDS, name, "command", (), MemPlaceError)
            except MemPlaceError as error:
                _report(f"warning: {error}")
            else:
                app.add_typer(group, name=name, rich_help_panel=name.capitalize())


def _show_version(requested: bool) -> None:
    if requested:
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
    show_warnings()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
