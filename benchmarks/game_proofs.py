"""The proof of the game's rules: `python -m benchmarks.game_proofs [--games 150000] [--programs 3000] [--jobs 2]`.

Random games, and every game of tiny programs, are played by the compiled rules and by the readable reference side by
side: masks, offsets, windows, waits, gains and plans agree at every decision, and what the game says of each op is what
the simulators say of its plan, which the validator finds valid. Of tiny programs the exact agent proves the optimum,
which is compared with the best game. Prints counts as a table and as JSON; exit code 1 after a failure.

Units of work are numbered, and each draws what it plays from its number, so a run can be resumed: with `--log` what is
done is kept in a file of lines of JSON, and done units are not played again.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from math import inf
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from agents.exact import Exact
from benchmarks.tables import markdown
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.task import Task
from memplace_env.testing.reference_compiler import ceiling_of
from memplace_env.testing.reference_game import Game
from memplace_env.testing.reference_position import FAST
from memplace_env.testing.strategies import game_tasks, programs_with_idle_ops
from memplace_env.units import PS
from tests.envs.both_sides import TASTES, Compiled, all_games, play_a_game, require_same_end

UNIT = 100
"""Random games of a unit of work; tiny programs of one are fewer."""
LONG = 10
"""One unit of so many has programs of up to 14 ops, the others of up to `SHORT_OPS`: the plain reference is slow."""
SHORT_OPS = 6
TINY_UNIT = 20
TINY_OPS = 3
MOST_GAMES = 1_500
"""Of a tiny program; one with more is counted as cut."""
PROOF_SECONDS = 20.0
"""For the optimum of a tiny program; most take a few milliseconds."""

Optimum = Callable[[Task], int | None]


def optimum(task: Task) -> int | None:
    """Least latency in ps of any plan of the task, as the exact agent proves it; None where it does not.

    "Least" up to the agent's gap of 1e-5, or to less than a picosecond: a game may still be that much faster.
    """
    solution = Exact().solve(MallocGameEnv(task), time_limit=PROOF_SECONDS)
    assert solution.report is not None
    latency_ps = solution.report.latency_ps
    proven = solution.outcome == "optimal" or latency_ps - (solution.bound_s or 0.0) / PS < 1
    return latency_ps if proven else None


def random_games(number: int) -> Counter[str]:
    """Play a unit of random games."""
    counts: Counter[str] = Counter()

    def play(task: Task, seed_: int, taste: list[int]) -> None:
        counts.update(_told(play_a_game(task, Random(seed_), taste)))

    tasks = game_tasks() if number % LONG == 0 else game_tasks(programs_with_idle_ops(SHORT_OPS))
    _drawn(number, UNIT, play, tasks, st.integers(0, 2**32), TASTES)
    return counts


def tiny_programs(number: int, best_known: Optimum = optimum) -> Counter[str]:
    """Play all games of a unit of tiny programs, and compare the best with the optimum where both are known."""
    counts: Counter[str] = Counter()

    def play(task: Task) -> None:
        best: float = inf
        counts["programs"] += 1
        for games, (compiled, game, gains) in enumerate(all_games(Compiled(task), Game.begin(task))):
            if games == MOST_GAMES:
                counts["programs cut"] += 1
                return
            require_same_end(compiled, game, gains)
            counts.update(_told(game))
            best = min(best, game.estimate())
        least = best_known(task)
        if least is not None:
            counts["optimum known"] += 1
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


def _told(game: Game) -> Counter[str]:
    waits, copies = any(game.stall), sum(block.copied for block in game.blocks)
    told = {"games": 1, "decisions": game.use, "games that wait": waits, "games with a tail": game.tail > 0}
    task = game.setting.task
    above = [block.top > ceiling_of(task, FAST, block.start, task.program.num_ops - 1) for block in game.blocks]
    reserving = {"ops reserve bytes": task.costs.reserved_bytes.any(), "blocks where later ops reserve": sum(above)}
    told |= {"on parallel ports": not task.costs.serial, "copies in": copies, "write-backs": len(game.write_backs)}
    return Counter({each: int(count) for each, count in (told | reserving).items()})


WORK: dict[str, Callable[[int], Counter[str]]] = {"random games": random_games, "tiny programs": tiny_programs}


def _unit(part: str, number: int) -> dict[str, Any]:
    try:
        return {"part": part, "number": number, "counts": WORK[part](number)}
    except Exception:
        return {"part": part, "number": number, "counts": {"failures": 1}, "failure": traceback.format_exc()}


def _done(log: Path | None) -> list[dict[str, Any]]:
    if log is None or not log.exists():
        return []
    return [json.loads(line) for line in log.read_text().splitlines()]


def prove(units: dict[str, int], jobs: int, log: Path | None) -> Iterator[dict[str, Any]]:
    """What each unit of work found, those of an earlier run first."""
    earlier = [unit for unit in _done(log) if unit["number"] < units[unit["part"]]]
    yield from earlier
    known = {(unit["part"], unit["number"]) for unit in earlier}
    todo = [(part, number) for part, most in units.items() for number in range(most) if (part, number) not in known]
    with ProcessPoolExecutor(jobs) as pool:
        for future in as_completed([pool.submit(_unit, *each) for each in todo]):
            unit = future.result()
            if log is not None:
                with log.open("a") as file:
                    file.write(json.dumps(unit) + "\n")
            yield unit


def reach(counts: Counter[str]) -> str:
    """How good the best games of tiny programs are."""
    known = counts["optimum known"]
    if not known:
        return "No optimum of a tiny program is known."
    reached, loss = counts["optimum reached"] / known, counts["loss ppm"] / known / 1e6
    return f"The best game is optimal in {reached:.1%} of {known} tiny programs; mean loss {loss:.4%}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=150_000, help="random games (default 150000)")
    parser.add_argument("--programs", type=int, default=3000, help="tiny programs of which all games are played")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--log", type=Path, help="file that keeps what is done")
    wanted = parser.parse_args()
    units = {"random games": -(-wanted.games // UNIT), "tiny programs": -(-wanted.programs // TINY_UNIT)}
    counts: dict[str, Counter[str]] = {part: Counter() for part in units}
    failures = []
    for unit in prove(units, wanted.jobs, wanted.log):
        counts[unit["part"]].update(unit["counts"])
        if "failure" in unit:
            failures.append(unit)
            print(f"{unit['part']}, unit {unit['number']}:\n{unit['failure']}", file=sys.stderr)
    columns = sorted({column for found in counts.values() for column in found})
    print(
        markdown(["", *columns], [[part, *(f"{found[each]:,}" for each in columns)] for part, found in counts.items()])
    )
    print(f"\n{reach(counts['tiny programs'])}\n")
    print(json.dumps({part: dict(found) for part, found in counts.items()}, indent=2))
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
