"""Proofs in the settings of the first build, most of which cheap players nearly solve: bounds, plans, processor time.

    python -m benchmarks.game_optima                       # as a table; goes on where it was stopped
    python -m benchmarks.game_optima --write docs/game.md

The exact agent runs without a time limit, one program at a time, on one core.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import agents
from benchmarks.as_measured import GAME, as_measured
from benchmarks.cores import single_cores
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import markdown, write_between_markers
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.registration import Formulation

RESULTS = Path(__file__).parent / "results" / "game_optima.jsonl"
TEXT = {"sequence": 384}
SETTINGS: list[Record] = [
    {"workload": "ResNet50", "batch": 64, "dtype": "bfloat16"},
    {"workload": "ResNet101", "batch": 64, "dtype": "bfloat16"},
    {"workload": "BERT", "batch": 64, "dims": TEXT, "dtype": "bfloat16"},
    {"workload": "BERT-Large", "batch": 64, "dims": TEXT, "dtype": "bfloat16"},
    {"workload": "MobileNetV2", "batch": 128, "dtype": "bfloat16"},
    {"workload": "GPT2", "batch": 64, "dims": TEXT, "dtype": "bfloat16"},
    {"workload": "ViT", "batch": 64, "dtype": "bfloat16"},
    {"workload": "T5-small", "batch": 64, "dims": {**TEXT, "decoder_sequence": 128}, "dtype": "bfloat16"},
    {"workload": "Whisper-tiny", "batch": 64, "dims": {"decoder_sequence": 32}, "dtype": "bfloat16"},
    {"workload": "ConvNeXt-tiny", "batch": 128, "dtype": "bfloat16"},
    {"workload": "Swin-tiny", "batch": 64, "dtype": "bfloat16"},
    {"workload": "AlexNet", "batch": 4, "dtype": "bfloat16"},
    {"workload": "MobileNetV2", "accelerator": "edge-tpu", "batch": 4, "dtype": "int8"},
    {"workload": "MobileNetV2", "accelerator": "ethos-u65", "batch": 1, "dtype": "int8"},
    {"workload": "synthetic:matmul?factorisation=standard&size=8192&dtype=bfloat16"},
    GAME["MatMul-strassen2"],
    GAME["MatMul-rank47"],
]
FIELDS = ("workload", "accelerator", "batch", "dims", "dtype")


def measure(setting: Record) -> Record:
    """Bound, plan and best cheap plan, in seconds, and processor time."""
    env = MallocGameEnv(**as_measured(setting, Formulation.GAME))
    agents.Exact().solve(MallocGameEnv("synthetic:diamond?ops=9&seed=1"))  # loads compiled code
    cheap = agents.GreedyPlayer().solve(env).report
    xla = agents.XlaMsa().solve(env).report
    begin, began = time.process_time(), time.perf_counter()
    solution = agents.Exact().solve(env)
    assert solution.report is not None
    assert cheap is not None
    assert xla is not None
    return {
        **setting,
        "name": env.program.name,
        "chip": env.accelerator.name,
        "decisions": env.problem.num_decisions,
        "cheap_s": min(cheap.latency_s, xla.latency_s),
        "plan_s": solution.report.latency_s,
        "bound_s": solution.bound_s,
        "cpu_s": time.process_time() - begin,
        "wall_s": time.perf_counter() - began,
    }


def table(records: list[Record]) -> str:
    """One line a program, times in ms."""
    rows = []
    for r in records:
        row = [r["name"], r["chip"], str(r["decisions"]), f"{r['cheap_s'] / r['plan_s'] - 1:.1%}"]
        row += [f"{r['bound_s'] * 1e3:.6f}", f"{r['plan_s'] * 1e3:.6f}"]
        rows.append([*row, f"{r['plan_s'] / r['bound_s'] - 1:.4%}", f"{r['cpu_s']:.1f}"])
    total = sum(r["plan_s"] / r["bound_s"] - 1 for r in records)
    heads = ["program", "chip", "decisions", "cheap play above it", "bound ms", "plan ms", "gap", "processor s"]
    return markdown(heads, rows) + f"\nThe gaps add up to {total:.2%}.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document whose table is replaced")
    options = parser.parse_args()
    with single_cores(1) as pool:
        records = Ledger(RESULTS, FIELDS).complete(SETTINGS, measure, pool)
    print(table(records))
    if options.write:
        write_between_markers(options.write, "optima", table(records))


if __name__ == "__main__":
    main()
