"""How a graph policy that was trained on one workload maps others it has never seen, without any training there.

python -m benchmarks.generalisation                          # prints the matrix
python -m benchmarks.generalisation --write docs/egrl.md     # also draws the heat map into docs/pictures
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track

import agents
from agents.egrl import boltzmann
from agents.evaluator import MapEvaluator
from agents.learning.graph_policy import Graph, GraphPolicy
from agents.learning.threads import one_thread
from benchmarks.tables import markdown, save_results, write_between_markers
from memplace_env.files import write_atomically
from memplace_env.registration import one_shot_id
from memplace_env.views.style import new_figure, to_png

RESULTS = Path(__file__).parent / "results" / "generalisation.json"
PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "generalisation.png"
PAPER = ("ResNet50", "ResNet101", "BERT")
UNSEEN = ("BERT-Large", "ViT")
SAMPLES = 100
"""Maps drawn from a policy; all of the same seed."""

CONFIG = replace(agents.EGRLConfig(), boltzmann=0.2, refine=0.0, heuristics=False)
"""What is asked for is a policy, not a map: no refinement, and no start from heuristics."""


def train(workloads: Sequence[str], budget: int, seed: int) -> GraphPolicy:
    """A policy from `budget` maps of each workload."""
    policy: GraphPolicy = (
        agents.EGRL(CONFIG).train([one_shot_id(w) for w in workloads], budget=budget, seed=seed).policy
    )
    return policy


def zero_shot(policy: GraphPolicy, workload: str) -> dict[str, float]:
    """Speed-ups over native of the policy's most likely map, and of the best of `SAMPLES` maps drawn from it."""
    evaluator = MapEvaluator(one_shot_id(workload), budget=1 + SAMPLES)
    graph = Graph.of(evaluator.env.problem)
    with one_thread(), torch.inference_mode():
        chances = policy(graph).softmax(-1).flatten(0, 1).double().numpy()
    maps = boltzmann.sample(np.random.default_rng(0), np.repeat(chances[None], SAMPLES, axis=0))
    latency_s = evaluator(np.concatenate([chances.argmax(-1)[None], maps])).latency_s
    return {"likely": evaluator.baseline_s / latency_s[0], "sampled": evaluator.baseline_s / latency_s[1:].min()}


def table(results: Sequence[dict[str, Any]], kind: str) -> str:
    """Rows: trained on; columns: evaluated on; mean over seeds, and the lowest and highest where there are several."""
    rows = []
    for trained in dict.fromkeys(r["trained"] for r in results):
        cells = []
        for workload in (*PAPER, *UNSEEN):
            values = [r["speedup"][workload][kind] for r in results if r["trained"] == trained]
            spread = f" ({min(values):.3f} to {max(values):.3f})" if len(values) > 1 else ""
            cells.append(f"{np.mean(values):.3f}{spread}")
        rows.append([trained, *cells])
    return markdown(["trained on", *PAPER, *(f"{name} (never trained on)" for name in UNSEEN)], rows)


def draw(results: Sequence[dict[str, Any]]) -> Path:
    """The matrix of the best sampled maps as a heat map; white is as fast as native."""
    names = list(dict.fromkeys(r["trained"] for r in results))
    columns = [*PAPER, *UNSEEN]
    values = np.array(
        [
            [np.mean([r["speedup"][c]["sampled"] for r in results if r["trained"] == name]) for c in columns]
            for name in names
        ]
    )
    figure = new_figure(760, 90 + 70 * len(names))
    axes = figure.add_axes((0.14, 0.16, 0.74, 0.74))
    reach = float(np.abs(np.log(values)).max())
    image = axes.imshow(np.log(values), cmap="RdBu", vmin=-reach, vmax=reach, aspect="auto")
    for row, column in np.ndindex(*values.shape):
        dark = abs(np.log(values[row, column])) > 0.6 * reach
        colour = "white" if dark else "black"
        axes.text(column, row, f"{values[row, column]:.2f}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(columns)), columns)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel=f"evaluated on: best of {SAMPLES} maps", ylabel="trained on", title="Speed-up over native")
    bar = figure.colorbar(image, ax=axes, fraction=0.05)
    ticks = [value for value in (0.25, 0.5, 1.0, 1.5, 2.0) if abs(np.log(value)) <= reach]
    bar.set_ticks(np.log(ticks).tolist(), labels=[f"{value:g}" for value in ticks])
    return write_atomically(PICTURE, to_png(figure))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=int, default=4000, help="maps of each workload")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", type=Path, nargs="+", help="documents whose table is replaced; saves the results")
    options = parser.parse_args()
    jobs = [(names, seed) for names in [*((name,) for name in PAPER), PAPER] for seed in range(options.seeds)]
    results = []
    for names, seed in track(jobs, "training"):
        policy = train(names, options.budget, seed)
        speedup = {workload: zero_shot(policy, workload) for workload in (*PAPER, *UNSEEN)}
        trained = names[0] if len(names) == 1 else "all three"
        results.append({"trained": trained, "seed": seed, "budget": options.budget, "speedup": speedup})
    print(table(results, "likely"), table(results, "sampled"), sep="\n\n")
    if options.write:
        save_results(RESULTS, results)
        for document in options.write:
            for kind in ("likely", "sampled"):
                write_between_markers(document, f"generalisation-{kind}", table(results, kind))
        draw(results)


if __name__ == "__main__":
    main()
