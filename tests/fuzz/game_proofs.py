"""Compare the game's compiled rules with a plain reference on many games.

    python -m tests.fuzz.game_proofs [--games 150000] [--programs 3000] [--jobs 2]

Random games, and every game of tiny programs, are played by the compiled rules and by the readable reference side by
side: masks, offsets, windows, waits, gains and plans agree at every decision, and what the game says of each op is what
the simulators say of its plan, which the validator finds valid. Of tiny programs the exact agent proves the optimum,
which is compared with the best game. Prints counts as a table and as JSON; exit code 1 after a failure.

Units of work are numbered, and each draws its games from its number. A run that was stopped continues with the units
that are missing in its log, a file with one JSON object per line.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from benchmarks.ledger import Ledger, Record
from benchmarks.tables import benchmark_parser, markdown_table
from memplace_agents.exact import Exact
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.placement.task import Task
from tests.envs.both_sides import TASTES, Compiled, all_games, play_a_game, require_same_end
from tests.fuzz.tables import RESULTS
from tests.references.reference_compiler import ceiling_of
from tests.references.reference_game import Game
from tests.references.reference_position import FAST
from tests.strategies import game_tasks, programs_with_idle_ops

UNIT = 100
"""Random games of a unit of work."""
LONG = 10
"""Every tenth unit has programs of up to 14 ops, the others of up to `SHORT_OPS`: the plain reference is slow."""
SHORT_OPS = 6
TINY_UNIT = 20
"""Tiny programs of a unit of work."""
TINY_OPS = 3
MOST_GAMES = 1_500
"""Most games of a tiny program; one with more is counted as cut."""
GAP = 1e-5
"""Relative gap of the exact agent's proofs."""
PROOF_SECONDS = 20.0
"""Time limit for the optimum of a tiny program; most take a few milliseconds."""

Optimum = Callable[[Task], int | None]


def optimum(task: Task) -> int | None:
    """Return the least latency in ps of any plan of the task; None where the exact agent does not prove it.

    It is the least up to the agent's gap of 1e-5, or to less than a picosecond: a game may be that much faster.
    """
    solution = Exact().solve(MallocGameEnv(task), time_limit=PROOF_SECONDS)
    assert solution.report is not None
    latency_ps = solution.report.latency_ps
    proven = solution.outcome == "optimal" or latency_ps - (solution.bound_s or 0.0) / PS < 1
    return latency_ps if proven else None


def random_games(number: int) -> Counter[str]:
    """Play a unit of random games, and return counts."""
    counts: Counter[str] = Counter()

    def play(task: Task, seed_: int, taste: list[int]) -> None:
        counts.update(_counts_of(play_a_game(task, Random(seed_), taste)))

    tasks = game_tasks() if number % LONG == 0 else game_tasks(programs_with_idle_ops(SHORT_OPS))
    _drawn(number, UNIT, play, tasks, st.integers(0, 2**32), TASTES)
    return counts


def tiny_programs(number: int, find_optimum: Optimum = optimum) -> Counter[str]:
    """Play all games of a unit of tiny programs, compare the best with the proven optimum, and return counts."""
    counts: Counter[str] = Counter()

    def play(task: Task) -> None:
        best: float = inf
        counts["programs"] += 1
        for games, (compiled, game, gains) in enumerate(all_games(Compiled(task), Game.begin(task))):
            if games == MOST_GAMES:
                counts["programs cut"] += 1
                return
            require_same_end(compiled, game, gains)
            counts.update(_counts_of(game))
            best = min(best, game.estimate())
        least = find_optimum(task)
        if least is not None:
            counts["optimum known"] += 1
            if best < least * (1 - GAP) - 1:
                raise AssertionError(f"A game takes {best} ps, the proven optimum {least} ps.")
            counts["optimum reached"] += best <= least
            counts["loss ppm"] += round(1e6 * max(best / least - 1, 0)) if least else 0

    _drawn(number, TINY_UNIT, play, game_tasks(programs_with_idle_ops(TINY_OPS)))
    return counts


def _drawn(number: int, count: int, play: Callable[..., None], *what: st.SearchStrategy[Any]) -> None:
    """Call `play` with so many draws, which depend on the number only."""
    calm = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    seed(number)(calm(given(*what)(play)))()


def _counts_of(game: Game) -> Counter[str]:
    waits, copies = any(game.stall), sum(block.copied for block in game.blocks)
    figures = {"games": 1, "decisions": game.use, "games that wait": waits, "games with a tail": game.tail > 0}
    task = game.setting.task
    above = [block.top > ceiling_of(task, FAST, block.start, task.program.num_ops - 1) for block in game.blocks]
    reserving = {"ops reserve bytes": task.costs.reserved_bytes.any(), "blocks where later ops reserve": sum(above)}
    figures |= {"on parallel ports": not task.costs.serial, "copies in": copies, "write-backs": len(game.write_backs)}
    return Counter({name: int(count) for name, count in (figures | reserving).items()})


WORK: dict[str, Callable[[int], Counter[str]]] = {"random games": random_games, "tiny programs": tiny_programs}


def unit(setting: Record) -> Record:
    """Return the setting of a unit of work with its counts, and the traceback of a failure if there was one."""
    try:
        return {**setting, "counts": WORK[setting["part"]](setting["number"])}
    except Exception:
        return {**setting, "counts": {"failures": 1}, "failure": traceback.format_exc()}


def reach(counts: Counter[str]) -> str:
    """Return a sentence on how good the best games of tiny programs are."""
    proven = counts["optimum known"]
    if not proven:
        return "No optimum of a tiny program is known."
    reached, loss = counts["optimum reached"] / proven, counts["loss ppm"] / proven / 1e6
    return f"The best game is optimal in {reached:.1%} of {proven} tiny programs; mean loss {loss:.4%}."


def main() -> None:
    parser = benchmark_parser(__doc__, writes=False)
    parser.add_argument("--games", type=int, default=150_000, help="random games (default 150000)")
    parser.add_argument("--programs", type=int, default=3000, help="tiny programs of which all games are played")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--log", type=Path, default=RESULTS / "fuzz-game-proofs.jsonl", help="file of finished units")
    options = parser.parse_args()
    units = {"random games": -(-options.games // UNIT), "tiny programs": -(-options.programs // TINY_UNIT)}
    settings = [{"part": part, "number": number} for part, most in units.items() for number in range(most)]
    with ProcessPoolExecutor(options.jobs) as pool:
        ledger = Ledger(options.log, ("part", "number"))
        records = ledger.complete(settings, unit, pool, lambda record: "failure" not in record)
    counts: dict[str, Counter[str]] = {part: Counter() for part in units}
    failures = [record for record in records if "failure" in record]
    for record in records:
        counts[record["part"]].update(record["counts"])
    for failure in failures:
        print(f"{failure['part']}, unit {failure['number']}:\n{failure['failure']}", file=sys.stderr)
    columns = sorted({column for sums in counts.values() for column in sums})
    rows = [[part, *(f"{sums[column]:,}" for column in columns)] for part, sums in counts.items()]
    print(markdown_table(["", *columns], rows))
    print(f"\n{reach(counts['tiny programs'])}\n")
    print(json.dumps(counts, indent=2))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
