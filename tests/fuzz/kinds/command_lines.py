"""Command lines: every command with hostile values for its own arguments and flags, run in this process."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from typer.main import get_command
from typer.testing import CliRunner, Result

from memplace_env._lib.errors import MemPlaceError
from memplace_env.cli.app import app
from tests.fuzz import Wrong

NAME = "command lines"
CASES = 8_000

MODEL = "synthetic:diamond?ops=6&seed=1"
SEARCH = ("--budget", "4", "--bound", "0", "--time-limit", "0.05")
CODES = {0, 1, 2}
_SLOW_FLAGS = {"--details"}
_NEVER, _SLOW, _HARD = ("train", "leaderboard run"), ("solve", "explain", "render", "calibrate"), 0.8
"""Commands tried with refused arguments only, slow commands, and the fraction of refused cases of the latter."""

NUMBERS = [
    *("-1", "0", "1", "3", "007", "1_000", "1e3", "1.5", "0x10", "٣", "+2", "", " ", "one"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "18446744073709551616"),
    *("1" + "0" * 400, "9" * 5000, "-" + "9" * 5000),
    *("nan", "inf", "-inf", "1e308", "1e-320", "-0.0", "1e400", "-1e-9"),
]
TEXTS = [
    *("", " ", "-", "--", "~", ".", "..", "/", "x", "%s", "{0}", "[red]", "[/]", ":smile:", "$\\frac{a$", "a=b", "="),
    *("\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "a\nb", "a\rb", "\u202egnp.exe", "\udc80\udcff", "\u2028", "\x7f\x9b"),
    *("x" * 300, "y" * 5000, "a/" * 2500, "é ü/ß", "sequence=1", "sequence=" + "9" * 400, "population=nan", "w.\x1b=3"),
    *("int8", "float32", "chain", "none", "roofline", "nnp-i", "edge-tpu", "tpu-v4i-streamed", "one-shot", "game"),
    *("random", "exact", "egrl", "greedy-dp", "os:path", "json:\x1b", ":", "quick-v1", "search", "100", "5s", "own"),
    *("synthetic:chain?ops=-1", "synthetic:chain?ops=" + "9" * 30, "synthetic:\x1b", "synthetic:chain?ops=4&ops=4"),
    *("synthetic:chain?ops=4&accelerator=/dev/zero", "MemPlace-BERT-v0", "BERT\x1b", "x.onnx", "x.tflite", "x.mlir"),
    *("/dev/zero", "/dev/full/x.png", "/proc/self/mem", "/nowhere/x", "x.png", "x.gif", "a b.PNG", "x.toml", "test"),
]  # fmt: skip
HOSTILE_FILE = "\x1b[31m[red]:smile:\n\u202e$x$ é.json"
CHIP = "$a$_\\[red]:smile:"
GARBAGE = ["", "{}", "[]", '{"a": ' * 2000, "9" * 5000, "\x1b", "a,b\n1", 'name = "\\u001b"']


class Command(NamedTuple):
    """One of the application's commands.

    Attributes:
        words: its name.
        arguments: names of its arguments.
        flags, options: its options that take no value, and those that do.
        required: the options that must be there.
    """

    words: tuple[str, ...]
    arguments: tuple[str, ...]
    flags: tuple[str, ...]
    options: tuple[str, ...]
    required: tuple[str, ...]


class Prepared(NamedTuple):
    """The commands, and a folder with files for their arguments."""

    commands: list[Command]
    files: Path
    plan: str
    game: str


def prepare(folder: Path) -> Prepared:
    """Read the commands off the application, and make a plan, a game, a chip and files of garbage."""
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    for name, extra in (("plan", ["random"]), ("game", ["greedy-player", "--formulation", "game"])):
        command = ["solve", MODEL, *SEARCH, "--out", str(files / name), "--agent", *extra]
        if (made := CliRunner().invoke(app, command)).exit_code:
            raise Wrong(made.output)
    plan, game = (str(files / name / "plan.json") for name in ("plan", "game"))
    shutil.copy(plan, files / HOSTILE_FILE)
    preset = Path(__file__).parents[3] / "memplace_env/machine/accelerator/presets/nnp-i.toml"
    (files / "chip.toml").write_text(preset.read_text().replace('"nnp-i"', f"'{CHIP}'").replace('"DRAM"', "'_$D$'"))
    (files / "measured.csv").write_text(f"model,latency_ms\n{MODEL},0.01\n{MODEL},nan\n")
    for number, text in enumerate(GARBAGE):
        for suffix in (".json", ".toml", ".onnx", ".csv", ".program"):
            (files / f"garbage{number}{suffix}").write_text(text, "utf-8")
    (files / "submission").mkdir(exist_ok=True)
    (files / "submission" / "submission.toml").write_text('agent = "\\u001b[31m"\n')
    with _inside(folder):  # so that kernels are compiled
        CliRunner().invoke(app, ["play", MODEL], input="cndgu\ng\nq\n")
        CliRunner().invoke(app, ["explain", MODEL, plan])
        CliRunner().invoke(app, ["compare", MODEL, plan, game])
        CliRunner().invoke(app, ["simulate", MODEL, game])
        CliRunner().invoke(app, ["render", MODEL, game, "--out", "x.png"])
    return Prepared(list(_commands(get_command(app))), files, plan, game)


def _commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[Command]:
    for name, below in getattr(command, "commands", {}).items():
        yield from _commands(below, (*words, name))
    options = [each for each in command.params if each.param_type_name == "option" and each.opts[0] not in _SLOW_FLAGS]
    yield Command(
        words,
        tuple(each.name for each in command.params if each.param_type_name == "argument"),
        tuple(each.opts[-1] for each in options if each.is_flag),
        tuple(each.opts[-1] for each in options if not each.is_flag),
        tuple(each.opts[-1] for each in options if each.required),
    )


def case(prepared: Prepared, rng: np.random.Generator, folder: Path) -> bool:
    """Run one command line and check its end."""
    arguments = command_line(prepared, rng)
    environment = {"COLUMNS": rng.choice(["1", "40", "x", "0", "999"]), "NO_COLOR": "1", "TERM": "dumb"}
    chosen = {name: str(value) for name, value in environment.items() if rng.random() < 0.2}
    keys = "".join(rng.choice(list("cndgu\x1bq\n "), 12))
    with _inside(folder):
        result = CliRunner().invoke(app, arguments, input=keys, env=chosen)
    try:
        check(result, "--json" in arguments)
    except Wrong as wrong:
        raise Wrong(f"{wrong}: memplace {' '.join(map(ascii, arguments))}"[:2000]) from None
    return result.exit_code == 0


def command_line(prepared: Prepared, rng: np.random.Generator) -> list[str]:
    """Return a command, its arguments and some of its flags."""
    command = prepared.commands[rng.integers(len(prepared.commands))]
    line = list(command.words)
    name = " ".join(line)
    refused = name in _NEVER or (name in _SLOW and rng.random() < _HARD)
    for argument in command.arguments:
        line += _argument(prepared, rng, argument, refused)
    if name == "leaderboard run":
        line += ["--suite", "none"]  # as a text of no meaning may be an agent's name
    if name == "solve":
        line += ["--agent", "random", *SEARCH]
    for option in command.required:
        if rng.random() < 0.9:
            line += [option, str(rng.choice(["x.png", "x.svg", "o"]))]
    for _ in range(rng.integers(4)):
        if command.options and rng.random() < 0.8:
            option = str(rng.choice(command.options))
            if refused or option not in ("--agent", "--budget", "--time-limit", "--bound"):
                value = _value(prepared, rng)
                line += [f"{option}={value}"] if rng.random() < 0.5 else [option, value]
        elif command.flags:
            line.append(str(rng.choice(command.flags)))
    if rng.random() < 0.05:
        line.insert(int(rng.integers(len(line) + 1)), _value(prepared, rng))
    if rng.random() < 0.05:
        line = line[: int(rng.integers(len(line) + 1))]
    return line


def _argument(prepared: Prepared, rng: np.random.Generator, name: str, refused: bool) -> list[str]:
    """Return a value for an argument: a fitting one or, if the command is to be refused, any."""
    if refused or rng.random() < 0.2:
        return [_value(prepared, rng, _TEXTS_ONLY)] if rng.random() < 0.95 else []
    fitting = {
        "model": [MODEL],
        "plan": [prepared.plan, prepared.plan, prepared.game],
        "plans": [prepared.plan, str(prepared.files / HOSTILE_FILE), prepared.game],
        "folders": [str(prepared.files / "submission"), str(prepared.files)],
        "measurements": [str(prepared.files / "measured.csv")],
    }
    choices = fitting.get(name, TEXTS)
    return [str(rng.choice(choices)) for _ in range(2 if name.endswith("s") and rng.random() < 0.3 else 1)]


_TEXTS_ONLY = [text for text in TEXTS if not text.startswith(("synthetic:chain?ops=4", "egrl", "random", "BERT"))]


def _value(prepared: Prepared, rng: np.random.Generator, texts: Sequence[str] = TEXTS) -> str:
    """Return any value at all."""
    kind = rng.random()
    if kind < 0.4:
        return NUMBERS[rng.integers(len(NUMBERS))]
    if kind < 0.8:
        return texts[rng.integers(len(texts))]
    there = sorted(path for path in prepared.files.iterdir())
    return str(there[rng.integers(len(there))])


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in an empty folder, which is deleted afterwards."""
    before, work = Path.cwd(), folder / "work"
    work.mkdir()
    os.chdir(work)
    try:
        yield
    finally:
        os.chdir(before)
        shutil.rmtree(work)


def check(result: Result, json_asked: bool) -> None:
    """Raise what is no way to end.

    Raises:
        Wrong: with what is wrong.
        BaseException: what the command raised.
    """
    if isinstance(result.exception, MemPlaceError):  # which counts as refused where it is raised
        raise Wrong(f"{type(result.exception).__name__} left the application: {result.exception}")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    out, said = result.stdout, result.stderr
    if result.exit_code not in CODES:
        raise Wrong(f"exit code {result.exit_code}")
    strange = [line for line in f"{out}\n{said}".split("\n") if not line.isprintable()]
    if strange:
        raise Wrong(f"on the terminal: {strange[0][:200]!r}")
    if "Traceback" in out + said or "warning:" in said:
        raise Wrong(f"on the terminal: {(out + said)[:500]!r}")
    sentences = [line for line in said.split("\n") if line.startswith("memplace: ")]
    if result.exit_code == 2 and (len(sentences) != 1 or not said.endswith(sentences[0] + "\n") or len(said) > 4000):
        raise Wrong(f"no one sentence: {said[:500]!r}")
    if result.exit_code == 2 and not sentences[0].endswith((".", "?")):
        raise Wrong(f"no sentence: {said[:500]!r}")
    if json_asked and result.exit_code == 0 and not out.lstrip().startswith(("Usage", "memplace ")):
        json.loads(out, parse_constant=_no_constant)


def _no_constant(text: str) -> None:
    raise Wrong(f"{text} in JSON")
