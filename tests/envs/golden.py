"""Latencies that an environment's version stands for.

`golden.json` is what the ids give, `golden-roofline.json` what the first of them give under roofline costs, on the
chips that the recorded results rest on. `python -m tests.envs.golden` writes the first anew; it only adds ids,
as what is recorded is what an id's `-vN` promises.
"""

import json
from pathlib import Path

import gymnasium as gym
import numpy as np

from memplace_env._lib.version import __version__
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.steps import StepsEnv

GOLDEN = Path(__file__).with_name("golden.json")
ROOFLINE = Path(__file__).with_name("golden-roofline.json")


def latencies(env):
    """Return hashes of an environment, and latencies of some of its plans."""
    who = {"program": env.program.sha256, "accelerator": env.accelerator.sha256}
    if isinstance(env, MallocGameEnv):
        states = env.problem.new_states(2)
        env.problem.finish_greedily(states[:1])
        env.problem.finish_randomly(states[1:], seed=0)
        found = env.problem.latency_s(states).tolist()
        return {**who, "all_backing_ps": env.problem.all_backing_ps, "greedy_and_random_latency_s": found}
    if isinstance(env, StepsEnv):
        states = env.problem.new_states(3)
        # The first takes the fastest level with room each time.
        actions = np.random.default_rng(0).integers(0, 3, (env.problem.num_decisions, 3))
        actions[:, 0] = 0
        for row in actions:
            env.problem.play(states, row)
        found = env.problem.scores(states).latency_s.tolist()
        return {**who, "decisions": env.problem.num_decisions, "first_fit_and_random_latency_s": found}
    assignments = np.random.default_rng(0).integers(0, env.accelerator.num_levels, (2, env.problem.num_decisions))
    _, scores = env.score(assignments)
    return {
        **who,
        "native_ps": env.problem.native_report.latency_ps,
        "random_latency_s": scores.latency_s.tolist(),
        "random_reassigned": scores.reassigned.tolist(),
    }


def kept(recorded, found, version):
    """Return what is to be recorded of all ids.

    Raises:
        SystemExit: if a released id would change, or one would go.
    """
    changed = sorted(env_id for env_id in recorded if found.get(env_id) != recorded[env_id])
    if changed and version.partition(".")[0] != "0":
        raise SystemExit(f"{', '.join(changed)} gave other latencies when released; register the next version, -vN.")
    return found


if __name__ == "__main__":
    formulations = (Formulation.ONE_SHOT, Formulation.STEPS, Formulation.GAME)
    ids = [each.traits.env_id(name) for each in formulations for name in ("Tiny", *each.traits.named)]
    made = {env_id: latencies(gym.make(env_id).unwrapped) for env_id in ids}
    GOLDEN.write_text(json.dumps(kept(json.loads(GOLDEN.read_text()), made, __version__), indent=1) + "\n")
