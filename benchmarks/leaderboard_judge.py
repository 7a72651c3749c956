"""Time of judged runs against the same searches without a judge, in one process; prints JSON.

    python -m benchmarks.leaderboard_judge

Both search with the same agents, budgets and seeds on one core. Without a judge the agent is called as the judge calls
it, on an environment of its own. Of each, the least processor time of `REPEATS` is taken, of all processes together.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Callable
from typing import Any

from memplace_agents.registry import make_agent
from memplace_env.leaderboard.drawn_machines import MeasuredMachine, drawn_machine
from memplace_env.leaderboard.jobs import Job, judge, play
from memplace_env.leaderboard.pinned import make_env
from memplace_env.leaderboard.suite import Budget, load_suite

MACHINE_SEED = 0
CASES = (
    ("quick-v1", "search", "local-search", "MemPlace-Evoformer-pairs-edge-tpu-v0", "4000"),
    ("quick-v1", "search", "game-local-search", "MallocGame-R3D-18-edge-tpu-v0", "4000"),
    ("black-box-v2", "factors-5", "local-search", "MemPlace-Evoformer-pairs-edge-tpu-v0", "500"),
    ("black-box-v2", "factors-5", "game-local-search", "MallocGame-R3D-18-edge-tpu-v0", "500"),
)
REPEATS = 5


def without_judge(suite: str, track: str, agent: str, env_id: str, budget: str) -> None:
    """Search in this process."""
    played = load_suite(suite).track(track)
    box = None
    if played.machine is not None:
        box = MeasuredMachine(drawn_machine(played.machine, MACHINE_SEED), played.noise or 0.0, 0)
    make_agent(agent).solve(make_env(env_id, box), budget=int(budget), seed=0)


def judged(suite: str, track: str, agent: str, env_id: str, budget: str) -> float:
    """Let the judge play a run; return the processor seconds of the agent's process."""
    played = load_suite(suite).track(track)
    seed = MACHINE_SEED if played.machine else None
    return play(Job(agent, {}, played, env_id, Budget(budget), 0, machine_seed=seed)).processor_seconds or 0.0


def measured(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return the least processor and wall seconds in this process of some calls, and the last result."""
    cpu, wall, result = [], [], None
    for _ in range(REPEATS):
        begin, spent = time.perf_counter(), time.process_time()
        result = work()
        cpu.append(time.process_time() - spent)
        wall.append(time.perf_counter() - begin)
    return min(cpu), min(wall), result


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rows = []
    for case in CASES:
        without_judge(*case)
        judged(*case)
        alone_s, alone_wall_s, _ = measured(lambda case=case: without_judge(*case))  # type: ignore[misc]
        judge_s, judged_wall_s, agent_s = measured(lambda case=case: judged(*case))  # type: ignore[misc]
        rows.append(
            {
                **dict(zip(("suite", "track", "agent", "env_id", "plans"), case, strict=True)),
                "without_judge_s": round(alone_s, 4),
                "agent_s": round(agent_s, 4),
                "judge_s": round(judge_s, 4),
                "ratio": round((agent_s + judge_s) / alone_s, 3),
                "wall_ratio": round(judged_wall_s / alone_wall_s, 3),
            }
        )
    judge().close()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(json.dumps({"runs": rows, "peak_mb_of_children": round(peak)}, indent=1))


if __name__ == "__main__":
    main()
