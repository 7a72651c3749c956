"""Measure what slices gain: a curve over their size, and the best plans of the registered one-shot settings.

    python -m benchmarks.slices --write docs/slices.md       # and docs/data/slices.csv, the gains of all ids
    python -m benchmarks.slices --names AlexNet ResNet50     # of the gains only these ids

The curve: density-greedy on the programs of `CURVE` on the chips of `CHIPS`, at the chip's own dtype, for each share
of `SHARES`; None is without slices. The gains: every id `MemPlace-<name>-v0`, without slices and at `SHARE`, by
density-greedy and by the exact agent, which stops after `SECONDS`. The games: those of `GAMES`, without slices and at
their share, by the greedy player and by the exact agent, which stops after `GAME_SECONDS`. A run that was stopped
continues with what is missing in results/slices.jsonl. Seconds are processor seconds of one core.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium as gym

import memplace_agents
from benchmarks.cores import single_cores
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import SHOWN, DataFile, benchmark_parser, markdown_table, milliseconds, publish
from memplace_agents.base import Agent
from memplace_agents.solution import Solution
from memplace_env._lib.errors import MemPlaceError
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.machine.accelerator import accelerator_names

RESULTS: Final = Path(__file__).parent / "results" / "slices.jsonl"
FIELDS: Final = ("table", "name", "accelerator", "slices")
CURVE: Final = (*SHOWN, "InceptionV3", "ALBERT")
CHIPS: Final = accelerator_names()
SHARES: Final = (None, 1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
SHARE: Final = 0.1
SECONDS: Final = 10.0
GAMES: Final = {
    "MallocGame-ResNet50-intel-npu-4000-v0": 0.1,
    "MallocGame-ALBERT-edge-tpu-v0": 0.25,
    "MallocGame-Swin-tiny-edge-tpu-v0": 0.25,
    "MallocGame-GPT2-v0": 0.1,
}
GAME_SECONDS: Final = 60.0
LEAST: Final = 1.02
"""Latency without slices over that with them from which a gain is counted. Our choice."""
MOST_TIMES: Final = 3.0
"""Times as long as without slices: the aim for the exact agent."""
EVERY: Final = 6
"""The table of gains shows of so many ids, sorted by their gain, the one in the middle. Our choice."""
HEADS: Final = ("id", "tensors", "best ms", "s", "sliced: best ms", "s", "gain")
"""Heads of the tables of gains: tensors before and after the cut, and each best plan with the gap to its bound."""


def runs(names: Sequence[str]) -> list[Record]:
    """Return the settings of all tables, the curve's first."""
    curve = [
        {"table": "curve", "name": name, "accelerator": chip, "slices": share}
        for name, chip, share in product(CURVE, CHIPS, SHARES)
    ]
    games = [
        {"table": "games", "name": name, "slices": share} for name, fine in GAMES.items() for share in (None, fine)
    ]
    gains = [{"table": "gains", "name": name, "slices": share} for name in names for share in (None, SHARE)]
    return curve + games + gains


def measure(run: Record) -> Record:
    """Return a run's setting with latencies in seconds, and the processor seconds that each agent took."""
    if run["table"] == "curve":
        try:
            env = OneShotEnv(workload=run["name"], accelerator=run["accelerator"], slices=run["slices"])
        except MemPlaceError as error:
            return {**run, "refused": str(error)}
        return {**run, **_problem(env), **_solved(env, "density", memplace_agents.DensityGreedy())}
    if run["table"] == "games":
        game = gym.make(run["name"], slices=run["slices"]).unwrapped
        assert isinstance(game, MallocGameEnv)
        cheap = _solved(game, "cheap", memplace_agents.GreedyPlayer())
        return {
            **run,
            "tensors": game.task.program.num_tensors,
            **cheap,
            **_solved(game, "exact", memplace_agents.Exact(), time_limit=GAME_SECONDS),
        }
    traits = Formulation.ONE_SHOT.traits
    settings = {"workload": run["name"], "accelerator": traits.accelerator, **traits.settings[run["name"]]}
    env = OneShotEnv(**settings, slices=run["slices"])
    cheap = _solved(env, "density", memplace_agents.DensityGreedy())
    return {**run, **_problem(env), **cheap, **_solved(env, "exact", memplace_agents.Exact(), time_limit=SECONDS)}


def _problem(env: OneShotEnv) -> Record:
    program = env.task.program
    return {"tensors": program.num_tensors, "native_s": env.problem.native_report.latency_s}


def _solved(env: OneShotEnv | MallocGameEnv, called: str, agent: Agent[Any], **limits: Any) -> Record:
    began = time.process_time()
    solution: Solution = agent.solve(env, budget=10**9, **limits)
    took = time.process_time() - began
    assert solution.report is not None
    found = {"s": solution.report.latency_s, "bound_s": solution.bound_s, "took_s": round(took, 3)}
    return {f"{called}_{key}": value for key, value in found.items()}


def curve_table(records: Sequence[Record]) -> str:
    """Return the geometric means over programs: latency over that without slices, tensors, and processor seconds."""
    by_key = {(r["name"], r["accelerator"], r["slices"]): r for r in records if "refused" not in r}
    rows = []
    for chip in CHIPS:
        names = [name for name in CURVE if all((name, chip, share) in by_key for share in SHARES)]
        if not names:
            continue
        row = [chip, str(len(names))]
        for share in SHARES[1:]:
            pairs = [(by_key[name, chip, share], by_key[name, chip, None]) for name in names]
            speed = _mean([before["density_s"] / after["density_s"] for after, before in pairs])
            more = _mean([after["tensors"] / before["tensors"] for after, before in pairs])
            longer = _mean([after["density_took_s"] / before["density_took_s"] for after, before in pairs])
            row.append(f"{speed - 1:+.1%}, {more:.1f}, {longer:.1f}")
        rows.append(row)
    return markdown_table(["chip", "programs", *(f"{share:g}" for share in SHARES[1:])], rows)


class Pair(NamedTuple):
    """The records of one id without slices and with them."""

    whole: Record
    sliced: Record

    @property
    def gain(self) -> float:
        """Latency of the exact agent's plan without slices over that of the best plan with them."""
        return float(self.whole["exact_s"] / best_s(self.sliced))

    def cells(self) -> list[str]:
        """Return the row of a table of gains."""
        count = f"{self.whole['tensors']:,} → {self.sliced['tensors']:,}"
        halves = [(f"{milliseconds(best_s(r), 4)}{_gap(r)}", f"{r['exact_took_s']:.1f}") for r in self]
        return [self.whole["name"], count, *halves[0], *halves[1], f"{self.gain - 1:+.1%}"]


def best_s(record: Record) -> float:
    """Return the latency of the better of the exact agent's plan and the one without a search."""
    return float(min(record["exact_s"], record["density_s" if "density_s" in record else "cheap_s"]))


def gains(records: Sequence[Record]) -> list[Pair]:
    """Return the ids that were measured both ways, largest gain first."""
    by_key = {(r["name"], r["slices"]): r for r in records}
    names = [name for name, share in by_key if share is None and (name, SHARE) in by_key]
    return sorted((Pair(by_key[name, None], by_key[name, SHARE]) for name in names), key=lambda pair: -pair.gain)


def gains_table(pairs: Sequence[Pair]) -> str:
    """Return a Markdown table of an id in `EVERY`, and of the geometric mean of all; then gains and times."""
    rows = [pair.cells() for pair in pairs[EVERY // 2 :: EVERY]]
    rows.append([f"geometric mean of {len(pairs)}", *[""] * 5, f"{_mean([pair.gain for pair in pairs]) - 1:+.1%}"])
    enough = sum(pair.gain >= LEAST for pair in pairs)
    cheap = _mean([pair.whole["density_s"] / pair.sliced["density_s"] for pair in pairs])
    times = [pair.sliced["exact_took_s"] / max(pair.whole["exact_took_s"], 0.01) for pair in pairs]
    text = [
        f"{enough} of {len(pairs)} ids gain at least {LEAST - 1:.0%}.",
        f"Density-greedy's plans alone gain {cheap - 1:+.1%} in the mean.",
        f"The exact agent takes {_mean(times):.1f} times as long as without slices in the mean,",
        f"and at most {MOST_TIMES:g} times as long on {sum(time <= MOST_TIMES for time in times)} ids.",
    ]
    return f"{markdown_table(HEADS, rows)}\n\n" + "\n".join(text)


def gains_file(pairs: Sequence[Pair]) -> DataFile:
    """Return all ids with what was measured, latencies in ms."""
    heads = ["id"]
    for of in ("", "sliced "):
        heads += [f"{of}{name}" for name in ("tensors", "native ms", "density-greedy ms", "exact ms", "bound ms", "s")]
    rows = []
    for pair in pairs:
        row = [pair.whole["name"]]
        for r in pair:
            latencies = [r["native_s"], r["density_s"], r["exact_s"], r["exact_bound_s"]]
            row += [str(r["tensors"]), *(milliseconds(each, 6) for each in latencies), f"{r['exact_took_s']:.1f}"]
        rows.append([*row, f"{pair.gain:.4f}"])
    return DataFile([*heads, "gain"], rows)


def games_table(records: Sequence[Record]) -> str:
    """Return a Markdown table with a row for each game."""
    by_key = {(r["name"], r["slices"]): r for r in records}
    pairs = [
        (Pair(by_key[name, None], by_key[name, share]), share)
        for name, share in GAMES.items()
        if (name, None) in by_key and (name, share) in by_key
    ]
    rows = [[f"{pair.whole['name']}, {share:g}", *pair.cells()[1:]] for pair, share in pairs]
    return markdown_table([f"{HEADS[0]}, share", *HEADS[1:]], rows)


def _gap(record: Record) -> str:
    bound = record["exact_bound_s"]
    return f" ({best_s(record) / bound - 1:.2%})" if bound else ""


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / max(1, len(values)))


def main() -> None:
    parser = benchmark_parser(__doc__)
    settings = Formulation.ONE_SHOT.traits.settings
    parser.add_argument("--names", nargs="+", choices=settings, default=list(settings), metavar="NAME", help="ids")
    parser.add_argument("--jobs", type=int, default=1, help="programs side by side (default 1)")
    options = parser.parse_args()
    wanted = runs(options.names)
    with single_cores(options.jobs) as pool:
        Ledger(RESULTS, FIELDS).complete(wanted, measure, pool)
    records = Ledger(RESULTS, FIELDS).of(wanted)
    curve = curve_table([record for record in records if record["table"] == "curve"])
    games = games_table([record for record in records if record["table"] == "games"])
    pairs = gains([record for record in records if record["table"] == "gains"])
    tables = {"curve": curve, "gains": gains_table(pairs), "games": games}
    publish(tables, options.write, {"slices.csv": gains_file(pairs)})


if __name__ == "__main__":
    main()
