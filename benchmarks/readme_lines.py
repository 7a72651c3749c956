"""Run README's learning lines as they are printed there.

python -m benchmarks.readme_lines --write docs/learning.md    # about two minutes
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.tables import benchmark_parser, markdown_table, publish
from examples import ppo

README = Path(__file__).parents[1] / "README.md"


class Learned(NamedTuple):
    """One of README's calls of `learn`: environment, steps, mean return of the last 100 episodes, processor seconds."""

    env_id: str
    steps: int
    mean: float
    seconds: float


def run_lines(divisor: int = 1) -> list[Learned]:
    """Run the second block of README's Python in order, each call of `learn` with its steps divided, without logs."""
    _, block = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), re.DOTALL)
    parts = re.split(r"(?<=\n)(?=\w+ = VecMonitor)", block.replace('"verbose": 1', '"verbose": 0'))
    names: dict[str, Any] = {}
    exec(f"import gymnasium as gym\nimport memplace_env\n{parts[0]}", names)
    return [_learn(part, divisor, names) for part in parts[1:]]


def _learn(lines: str, divisor: int, names: dict[str, Any]) -> Learned:
    shorter = re.sub(r"learn\(([\d_]+)\)", lambda found: f"learn({int(found[1]) // divisor})", lines)
    began = time.process_time()
    exec(shorter, names)
    (name,) = re.findall(r"^(\w+) = .*learn\(", lines, re.MULTILINE)
    (env_id,) = re.findall(r'make_vec\("([\w-]+)"', lines)
    model = names[name]
    mean = float(np.mean([episode["r"] for episode in model.ep_info_buffer]))
    return Learned(env_id, model.num_timesteps, mean, time.process_time() - began)


def table(results: list[Learned]) -> str:
    """Return a Markdown table with a row for each call."""
    heads = ["README's lines", "steps", "processor seconds", "mean of last 100", "without a search"]
    rows = []
    for env_id, steps, mean, seconds in results:
        rules = ", ".join(f"{name} {value:.3f}" for name, value in ppo.rules(env_id).items())
        rows.append([env_id, f"{steps:,}", f"{seconds:.0f}", f"{mean:.3f}", rules])
    return markdown_table(heads, rows)


def main() -> None:
    options = benchmark_parser(__doc__).parse_args()
    publish({"readme-lines": table(run_lines())}, options.write)


if __name__ == "__main__":
    main()
