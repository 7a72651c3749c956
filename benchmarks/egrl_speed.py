"""Where the time of an EGRL run goes, as JSON.

python -m benchmarks.egrl_speed
python -m benchmarks.egrl_speed --config paper --workloads BERT --budget 1000
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import resource
from typing import Any

import agents
from agents.egrl.config import CONFIGS
from memplace_env.registration import one_shot_id

PARTS = {
    "simulator": [("evaluator.py", "__call__"), ("evaluator.py", "offer"), ("evaluator.py", "solution")],
    "networks": [("learner.py", "posterior"), ("learner.py", "learn"), ("run.py", "__init__")],
    "proposals": [("refine.py", "_propose")],
}
"""Functions, none of which calls another, whose time is that of a part; what remains is bookkeeping."""


def measure(workload: str, config: str, budget: int, seed: int = 0) -> dict[str, Any]:
    """Seconds of a run by the clock, and the share of each part under the profiler, which slows Python down."""
    env = one_shot_id(workload)
    agents.EGRL(CONFIGS[config]).solve(env, budget=64)  # imports, compiled kernels
    seconds = agents.EGRL(CONFIGS[config]).solve(env, budget=budget, seed=seed).seconds
    profiler = cProfile.Profile()
    profiler.enable()
    agents.EGRL(CONFIGS[config]).solve(env, budget=budget, seed=seed)
    profiler.disable()
    stats: Any = pstats.Stats(profiler)
    spent = {(file.rsplit("/", 1)[-1], name): value[3] for (file, _, name), value in stats.stats.items()}
    shares = {part: sum(spent.get(place, 0.0) for place in places) / stats.total_tt for part, places in PARTS.items()}
    return {
        "workload": workload,
        "config": config,
        "budget": budget,
        "seconds": round(seconds, 1),
        "shares": {part: round(share, 3) for part, share in (shares | {"rest": 1 - sum(shares.values())}).items()},
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", choices=CONFIGS, default="default")
    parser.add_argument("--workloads", nargs="+", default=["ResNet50", "BERT"])
    parser.add_argument("--budget", type=int, default=4000)
    options = parser.parse_args()
    print(json.dumps([measure(name, options.config, options.budget) for name in options.workloads], indent=2))


if __name__ == "__main__":
    main()
