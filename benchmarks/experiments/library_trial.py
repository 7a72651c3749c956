"""Train one library once, in the Python of its own environment, and print what was measured as JSON.

    python -m benchmarks.experiments.library_trial with_sb3 --env MallocGame-BERT-v0 --steps 1000000 --seconds 60

`python -m benchmarks run libraries` calls this.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np
import psutil

from benchmarks.experiments.library_recorder import MEASURED, processor_seconds, register_measured

FIRST, LAST = 64, 256
"""Episodes at the beginning and at the end whose mean return is reported; a point of the curve is over `FIRST`."""
PACKAGES = (
    "stable_baselines3", "sb3_contrib", "ray", "torchrl", "tensordict", "tianshou", "skrl", "jax", "optax", "torch",
    "gymnasium", "numpy", "numba",
)  # fmt: skip


def trial(glue: str, env_id: str, steps: int, seconds: float, seed: int, free: bool) -> dict[str, Any]:
    """Return the steps, processor seconds and returns of a training run."""
    recorders = register_measured(env_id, free, seconds)
    module = importlib.import_module(f"examples.libraries.{glue}")
    try:
        module.train(MEASURED, steps, seed)
    except Exception:
        if not any(recorder.used_up for recorder in recorders):
            raise
    recorder = max(recorders, key=lambda recorder: recorder.steps)
    assert recorder.began is not None
    own = time.process_time() - recorder.own_began
    spent = processor_seconds() - recorder.began
    returns = recorder.returns
    return {
        "steps": recorder.steps,
        "seconds": round(spent, 2),
        "rate": recorder.rate() * own / spent,
        "episodes": len(returns),
        "first": float(np.mean(returns[:FIRST])) if returns else None,
        "last": float(np.mean(returns[-LAST:])) if returns else None,
        "best": max(returns, default=None),
        "curve": [round(float(np.mean(returns[i : i + 64])), 3) for i in range(0, len(returns), 64)],
        "versions": versions(),
    }


def versions() -> dict[str, str]:
    """Return the versions of what is loaded, by the name of its module."""
    loaded = {name.partition(".")[0] for name in sys.modules}
    return {name: sys.modules[name].__version__ for name in PACKAGES if name in loaded}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue")
    parser.add_argument("--env", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--free", action="store_true", help="an environment of the same shape that costs nothing")
    options = parser.parse_args()
    record = trial(options.glue, options.env, options.steps, options.seconds, options.seed, options.free)
    print(json.dumps(record), flush=True)
    for child in psutil.Process().children(recursive=True):
        child.kill()
    os._exit(0)  # some libraries leave threads that would wait


if __name__ == "__main__":
    main()
