"""Profile an EGRL run, as JSON.

python -m benchmarks.egrl_speed
python -m benchmarks.egrl_speed --config paper --workloads BERT --budget 1000
"""

from __future__ import annotations

import cProfile
import json
import pstats
import resource
from typing import Any

import memplace_agents
from benchmarks.tables import benchmark_parser
from memplace_agents.egrl.egrl_config import CONFIGS
from memplace_env.envs.registration import Formulation

PARTS = {
    "simulator": [("evaluator.py", "__call__"), ("evaluator.py", "offer"), ("evaluator.py", "solution")],
    "networks": [
        ("learner.py", "posterior"),
        ("learner.py", "learn"),
        ("egrl_run.py", "__init__"),
    ],
    "imagination": [("imagination.py", "imagined")],
    "surrogate": [("surrogate.py", "annealed"), ("surrogate.py", "observe")],
}
"""Functions of each part; none of them calls another, and the remaining time is bookkeeping."""


def measure(workload: str, config: str, budget: int, seed: int = 0) -> dict[str, Any]:
    """Return the seconds of a run, and each part's fraction of the time under the profiler, which slows Python down."""
    env = Formulation.ONE_SHOT.traits.env_id(workload)
    memplace_agents.EGRL(CONFIGS[config]).solve(env, budget=64)  # imports, compiled kernels
    seconds = memplace_agents.EGRL(CONFIGS[config]).solve(env, budget=budget, seed=seed).seconds
    profiler = cProfile.Profile()
    profiler.enable()
    memplace_agents.EGRL(CONFIGS[config]).solve(env, budget=budget, seed=seed)
    profiler.disable()
    stats: Any = pstats.Stats(profiler)
    spent = {(file.rsplit("/", 1)[-1], name): value[3] for (file, _, name), value in stats.stats.items()}
    shares = {part: sum(spent[name] for name in names) / stats.total_tt for part, names in PARTS.items()}
    return {
        "workload": workload,
        "config": config,
        "budget": budget,
        "seconds": round(seconds, 1),
        "shares": {part: round(share, 3) for part, share in (shares | {"rest": 1 - sum(shares.values())}).items()},
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = benchmark_parser(__doc__, writes=False)
    parser.add_argument("--config", choices=CONFIGS, default="default")
    parser.add_argument("--workloads", nargs="+", default=["ResNet50", "BERT"])
    parser.add_argument("--budget", type=int, default=4000)
    options = parser.parse_args()
    print(json.dumps([measure(name, options.config, options.budget) for name in options.workloads], indent=2))


if __name__ == "__main__":
    main()
