"""MuZero on new programs: from a network that was trained on others, against from scratch, at equal time.

python -m benchmarks.muzero_reuse
python -m benchmarks.muzero_reuse --write docs/muzero.md
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.progress import track

import agents
from agents.learning.policy_file import save_policy
from agents.muzero.networks import MuZeroNetwork
from benchmarks.tables import markdown, save_results, write_between_markers
from memplace_env.registration import game_id

RESULTS = Path(__file__).parent / "results" / "muzero_reuse.json"
TRAINED = ("GPT2", "BERT", "Swin-tiny")
NEW = ("ResNet101", "GPT2", "ConvNeXt-tiny")
ENDLESS = 10**9


def train(seconds: float, seed: int) -> MuZeroNetwork:
    """One network that has played all of `TRAINED` at once."""
    trained = agents.MuZero().train([game_id(w) for w in TRAINED], budget=ENDLESS, seed=seed, time_limit=seconds)
    return trained.policy


def measure(workload: str, policy: Path | None, seconds: float, seed: int) -> dict[str, Any]:
    """One run on a new program: its latency in ms after a quarter, half and all of the time, and its games."""
    solution = agents.MuZero(policy=policy).solve(game_id(workload), budget=ENDLESS, seed=seed, time_limit=seconds)
    ends = [seconds / 4, seconds / 2, float("inf")]
    reached = [
        min(p.latency_s for p in solution.history if p.seconds <= end or p is solution.history[0]) for end in ends
    ]
    return {
        "workload": workload,
        "start": "fine-tuned" if policy else "from scratch",
        "seed": seed,
        "seconds": seconds,
        "latency_ms": [latency * 1e3 for latency in reached],
        "games": solution.evaluations,
    }


def table(results: Sequence[dict[str, Any]]) -> str:
    """A line for each new program and start; means over the seeds."""
    seconds, rows = results[0]["seconds"], []
    for workload in NEW:
        for start in ("from scratch", "fine-tuned"):
            runs = [r for r in results if (r["workload"], r["start"]) == (workload, start)]
            latency = np.array([r["latency_ms"] for r in runs])
            cells = [f"{mean:.3f}" for mean in latency.mean(axis=0)]
            seeds = ", ".join(f"{value:.3f}" for value in latency[:, -1])
            rows.append([workload, start, *cells, seeds, f"{np.mean([r['games'] for r in runs]):.0f}"])
    heads = [f"ms after {share * seconds:g} s" for share in (0.25, 0.5, 1)]
    return markdown(["new program", "start", *heads, "of each seed", "games"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train-seconds", type=float, default=90.0, help="wall time of the training, once a seed")
    parser.add_argument("--seconds", type=float, default=25.0, help="wall time of each run on a new program")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--write", type=Path, help="document whose table is replaced; saves the results")
    options = parser.parse_args()
    results = []
    with TemporaryDirectory() as folder:
        for seed in track(range(options.seeds), "seeds"):
            policy = Path(folder) / f"{seed}.pt"
            save_policy(policy, train(options.train_seconds, seed), TRAINED)
            for workload in NEW:
                for start in (None, policy):
                    results.append(measure(workload, start, options.seconds, seed))
    print(table(results))
    if options.write:
        save_results(RESULTS, results)
        write_between_markers(options.write, "muzero-reuse", table(results))


if __name__ == "__main__":
    main()
