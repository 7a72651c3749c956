"""Plain PPO with ten seeds: README's lines, and examples/ppo.py on games and in steps.

Programs and steps were written down before the runs: the settings had been found on MallocGame-BERT and
MemPlaceSteps-BERT, of which README and the page speak.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple
from unittest.mock import patch

import gymnasium as gym
import numpy as np

from benchmarks.harness import ROOT, Experiment, Records, data, field, table
from benchmarks.ledger import Record
from examples import ppo
from memplace_env.envs.known_returns import best_known

SEEDS: Final = 10
README, EXAMPLE = "README.md", "examples/ppo.py"
RUNS: Final = (
    (README, "MallocGame-BERT-v0", 700_000),
    (EXAMPLE, "MallocGame-GPT2-v0", 1_400_000),
    (EXAMPLE, "MallocGame-MobileNetV3-edge-tpu-v0", 700_000),
    (README, "MemPlace-ResNet50-v0", 200_000),
    (EXAMPLE, "MemPlaceSteps-BERT-v0", 2_500_000),
    (EXAMPLE, "MemPlaceSteps-ResNet50-v0", 500_000),
)
"""The settings (whose they are), the environment and the steps of each run."""
POINTS: Final = 50
"""Most points of a recorded curve."""


def settings(records: Records = ()) -> list[Record]:
    """Return the settings of all runs, seed by seed."""
    return [
        {"by": by, "id": env_id, "steps": steps, "seed": seed} for seed in range(SEEDS) for by, env_id, steps in RUNS
    ]


def measure(run: Record) -> Record:
    """Return a run's setting with its learning curve, peak, deepest fall and best return."""
    train = readme_lines if run["by"] == README else ppo.train
    curve = train(run["id"], run["steps"], run["seed"])
    peak, fall = ppo.peak_and_fall(curve)
    every = -(-len(curve) // POINTS)
    shown = [*curve[every - 1 : -1 : every], curve[-1]]
    return {
        **run,
        "peak": peak,
        "fall": fall,
        "end": curve[-1].mean,
        "best": curve[-1].best,
        "took_s": curve[-1].seconds,
        "curve": [[point.steps, round(point.seconds, 2), round(point.mean, 6)] for point in shown],
    }


def readme_lines(env_id: str, steps: int, seed: int) -> list[ppo.Point]:
    """Return the curve of the lines in README that train on an environment, as printed but for their seed."""
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import PPO

    others, algorithm = ("venv|model", MaskablePPO) if env_id.startswith("MallocGame") else ("games|player", PPO)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / README).read_text("utf-8"), re.DOTALL)
    (block,) = (block for block in blocks if f'"{env_id}"' in block and f"{steps:_}" in block)
    code = re.sub(rf"(?m)^({others}) = .*\n", "", block).replace('"seed": 0', f'"seed": {seed}')
    code = code.replace('"verbose": 1', '"verbose": 0')
    shown, learn = ppo.Curve(), algorithm.learn
    with patch.object(algorithm, "learn", lambda model, total: learn(model, total, callback=shown)):
        exec(code, {"gym": gym})
    return shown.curve


class Group(NamedTuple):
    """The runs of one environment by one code."""

    by: str
    env_id: str
    steps: int
    runs: list[Record]


def groups(records: Records) -> Iterator[Group]:
    """Yield the runs of each row."""
    for by, env_id, steps in RUNS:
        found = [r for r in records if (r["by"], r["id"], r["steps"]) == (by, env_id, steps)]
        if found:
            yield Group(by, env_id, steps, found)


def over(key: str, of: Callable[[list[float]], float], form: str = ".3f") -> Callable[[Group], str]:
    """Return a cell: a statistic of the seeds."""
    return lambda group: f"{of([record[key] for record in group.runs]):{form}}"


def mean(values: list[float]) -> float:
    """Return the mean."""
    return float(np.mean(values))


EXPERIMENTS = [
    Experiment(
        "ppo",
        __doc__,
        {
            "docs/how-it-is-solved.md#ppo": table(
                {
                    "environment": lambda group: group.env_id + (", README's lines" if group.by == README else ""),
                    "steps": lambda group: f"{group.steps:,}",
                    "seeds": lambda group: len(group.runs),
                    "best rule": lambda group: f"{best_known(group.env_id).rule_return:.3f}",
                    "best known": lambda group: f"{best_known(group.env_id).best_return:.3f}",
                    "mean at the end": over("end", mean),
                    "lowest end": over("end", min),
                    "deepest fall": over("fall", max),
                    "best plan": over("best", max),
                    "s": over("took_s", mean, ".0f"),
                },
                groups,
            ),
            "docs/data/ppo-curves.csv": data(
                {
                    "id": field("id"),
                    "algorithm": lambda row: f"ppo ({row['by']})",
                    "seed": field("seed"),
                    "step": field("step"),
                    "seconds": field("seconds"),
                    "return": field("return"),
                },
                lambda records: (
                    {**record, "step": step, "seconds": seconds, "return": value}
                    for record in records
                    for step, seconds, value in record["curve"]
                ),
            ),
        },
        settings,
        measure,
        key=("by", "id", "steps", "seed"),
    )
]
