"""Settings of the comparison, the measurement of one, and the tables."""

from __future__ import annotations

import json
import statistics
import tokenize
from collections.abc import Sequence
from io import StringIO
from typing import Final

from benchmarks.ledger import Record
from benchmarks.libraries.environments import LIBRARIES, Library, run_module
from benchmarks.tables import markdown_table

FIELDS: Final = ("library", "env", "seed", "seconds", "free")
TRIAL_SECONDS: Final = 10.0
"""Processor seconds of the trial that says how many steps fit into a run, and of a run on what costs nothing."""
ENDLESS: Final = 10**8
BY_NAME: Final = {library.name: library for library in LIBRARIES}


def runs(names: Sequence[str], env_id: str, seconds: float, seeds: int) -> list[Record]:
    """Return the settings of all runs: training, and on the environment that costs nothing."""
    common = [{"library": name, "env": env_id} for name in names]
    free = {"seed": 0, "seconds": TRIAL_SECONDS, "free": True}
    return [
        *({**each, "seed": seed, "seconds": seconds, "free": False} for seed in range(seeds) for each in common),
        *({**each, **free} for each in common),
    ]


def measure(run: Record) -> Record:
    """Return a run's setting with what its trial measured, or with the `error` that ended it."""
    library = BY_NAME[run["library"]]
    arguments = [library.glue, "--env", run["env"], "--seed", str(run["seed"]), *(["--free"] if run["free"] else [])]

    def trial(steps: int, seconds: float) -> Record:
        limits = ["--steps", str(steps), "--seconds", str(seconds)]
        record: Record = json.loads(
            run_module(library, "benchmarks.libraries.trial", [*arguments, *limits]).splitlines()[-1]
        )
        return record

    try:
        if run["free"]:
            result = trial(ENDLESS, run["seconds"])
        else:
            steps = round(trial(ENDLESS, TRIAL_SECONDS)["rate"] * run["seconds"])
            result = trial(steps, 1.5 * run["seconds"])
    except RuntimeError as error:
        return {**run, "error": str(error)}
    return {**run, **{key: value for key, value in result.items() if key != "seconds"}, "took_s": result["seconds"]}


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table with a row for each library; where there are several seeds their mean."""
    heads = ["library", "lines", "steps/s", "ceiling", "first games", "last 256 games", "best game"]
    rows = []
    for library in LIBRARIES:
        mine = [record for record in records if record["library"] == library.name and "error" not in record]
        trained = [record for record in mine if not record["free"]]
        free = [record for record in mine if record["free"]]
        if not trained:
            continue
        row = [f"{library.name}{'' if library.masks else ' (no mask)'}", str(sum(map(code_lines, library.own_sources)))]
        row += [thousands(trained), thousands(free) if free else "–"]
        row += [f"{statistics.mean(record[key] for record in trained):.2f}" for key in ("first", "last", "best")]
        rows.append(row)
    return markdown_table(heads, rows)


def thousands(records: Sequence[Record]) -> str:
    """Return steps per processor second, in thousands."""
    return f"{statistics.mean(record['rate'] for record in records) / 1e3:.1f} k"


def code_lines(source: str) -> int:
    """Return the lines of a source without empty ones, comments and docstrings."""
    nothing = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    lines: set[int] = set()
    new = True
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type not in nothing and not (new and token.type == tokenize.STRING):
            lines |= set(range(token.start[0], token.end[0] + 1))
        new = token.type in nothing if token.type != tokenize.STRING else False
    return len(lines)


def glue(libraries: Sequence[Library] = LIBRARIES) -> str:
    """Return the code of every library, each under its name."""
    return "\n\n".join(
        f"### {library.name}\n`pip install {' '.join(library.requirements)}`; the code is "
        f"[{library.glue}.py](../benchmarks/libraries/glue/{library.glue}.py).\n\n```python\n{library.source}```"
        for library in libraries
    )
