"""Measure speeds and print them as JSON: `make bench`, or `python -m benchmarks.speed [--quick]`.

Rates are the best of several rounds, times of whole processes the median. "One core" means that the process may run
on one core only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO

import memplace_agents
import memplace_env
from benchmarks import event_speed
from memplace_agents.learning.torch_threads import one_thread
from memplace_env._lib.threads import available_cores
from memplace_env.envs.wrappers import SB3VecEnv
from memplace_env.program.zoo import zoo_path
from tests.references import reference_compiler, reference_game, reference_simulator

LLAMA = zoo_path("Llama-1B")
WORKLOADS = ("BERT", "ResNet50")
BATCH = 4096
STEPS_FLOOR = 300_000
"""Least decisions per processor second of `steps_vector_rate` that a change may leave; our choice."""
GAME_SETTING = {"workload": "BERT", "batch": 64, "dims": {"sequence": 384}, "costs": "roofline"}
GAME_FLOOR = 200_000
"""Least decisions per processor second of `game_vector_rate` with reused arrays; our choice."""
STEP_FLOOR_US = 40
"""Most microseconds of one decision in `env.step`; our choice. A one-shot step compiles and times a whole program."""
README_ONE_SHOT = {"num_envs": 256, "n_steps": 4, "batch_size": 1024, "n_epochs": 4, "learning_rate": 3e-3}
README_GAME = {"num_envs": 64, "n_steps": 64, "batch_size": 1024, "n_epochs": 4}


def best_seconds(run: Callable[[], Any], rounds: int = 5) -> float:
    """Return the least wall time of one call, after one to warm up."""
    run()
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def vector_rate(workload: str, cores: int | None) -> float:
    """Return assignments/s of the native vector environment: compile with offsets, simulate, reward."""
    if cores is not None:
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    env = gym.make_vec(f"MemPlace-{workload}-v0", num_envs=BATCH, autoreset_mode="SameStep")
    env.reset(seed=0)
    assignments = np.random.default_rng(0).integers(0, 3, (BATCH, env.single_action_space.shape[0]))
    return BATCH / best_seconds(lambda: env.step(assignments))


def reference_rate(workload: str) -> float:
    """Return assignments/s of the plain Python reference, to which the tests compare the kernels."""
    env = gym.make(f"MemPlace-{workload}-v0").unwrapped
    task, decision_of = env.task, env.problem.decision_of
    assignment = np.random.default_rng(0).integers(0, 3, env.problem.num_decisions)
    levels = np.where(task.program.is_placeable, assignment[decision_of], task.backing).tolist()

    def once() -> None:
        plan, _ = reference_compiler.compile_levels(task, levels, "weights-before-results")
        reference_simulator.simulate(task, plan)

    return 1 / best_seconds(once, rounds=1)


def rules_rate(workload: str) -> float:
    """Return decisions/s of one core: random legal games without observations."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    problem = gym.make(f"MallocGame-{workload}-v0").unwrapped.problem
    games = 256
    seconds = best_seconds(lambda: problem.finish_randomly(problem.new_states(games), seed=0))
    return games * problem.num_decisions / seconds


def game_vector_rate(observation: str, **options: Any) -> float:
    """Return decisions per processor second of 256 games of BERT: native vectors with observations, random actions."""
    env = gym.make_vec("MallocGame-v0", num_envs=256, observation=observation, **GAME_SETTING, **options)
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 3, (env.unwrapped.problem.num_decisions, 256))
    rates = []
    for _ in range(4):  # the first compiles
        begin = time.process_time()
        for played in actions:
            env.step(played)
        rates.append(actions.size / (time.process_time() - begin))
    return max(rates)


def steps_vector_rate(workload: str) -> float:
    """Return decisions per processor second of 256 episodes in steps: observed, compiled at the end, random actions."""
    env = gym.make_vec(f"MemPlaceSteps-{workload}-v0", num_envs=256, autoreset_mode="SameStep")
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 3, (env.unwrapped.problem.num_decisions, 256))
    rates = []
    for _ in range(4):  # the first compiles
        begin = time.process_time()
        for played in actions:
            env.step(played)
        rates.append(actions.size / (time.process_time() - begin))
    return max(rates)


def many_rate(env_id: str, **settings: Any) -> float:
    """Return steps per processor second of 256 observed episodes, once what they draw is loaded: random actions.

    All of them begin in the same step and are stepped 500 times, so that programs of all lengths are among them.
    """
    env = gym.make_vec(env_id, num_envs=256, autoreset_mode="SameStep", **settings)
    rates = []
    actions = np.random.default_rng(0).integers(0, 3, (500, 256))
    for _ in range(4):  # the first rounds compile, and load programs
        env.reset(seed=0)
        begin = time.process_time()
        for played in actions:
            env.step(played)
        rates.append(actions.size / (time.process_time() - begin))
    return max(rates)


def reference_game_rate(workload: str) -> float:
    """Return decisions/s of the plain Python reference; it plays NoCopy, else Copy, else Drop."""
    env = gym.make(f"MallocGame-{workload}-v0").unwrapped
    game = reference_game.Game.begin(env.task)
    begin = time.perf_counter()
    while not game.over:
        game.play(next(action for action in (1, 0, 2) if game.legal(action)[0]))
    return env.problem.num_decisions / (time.perf_counter() - begin)


def ppo_rate(env_id: str, steps: int, policy: str, **settings: Any) -> float:
    """Return steps per CPU second of Stable-Baselines3's PPO with its training, torch with one thread.

    With `num_envs` as in the README, on flat observations; without it as `PPO(policy, env_id)` does it.
    """
    with one_thread():
        env: Any = env_id
        if "num_envs" in settings:
            env = SB3VecEnv(gym.make_vec(env_id, num_envs=settings.pop("num_envs"), observation="flat"))
        model = PPO(policy, env, device="cpu", seed=0, **settings)
        model.learn(1)
        begin, before = time.process_time(), model.num_timesteps
        model.learn(steps, reset_num_timesteps=False)
        return (model.num_timesteps - before) / (time.process_time() - begin)


def fork_seconds(workload: str) -> float:
    """Return the seconds of one `fork` of a game in its middle."""
    env = gym.make(f"MallocGame-{workload}-v0").unwrapped
    env.reset()
    for _ in range(env.problem.num_decisions // 2):
        env.step(2)

    def once() -> None:
        for _ in range(100):
            env.fork()

    return best_seconds(once) / 100


def solver_seconds(agent: str, env_id: str, **options: Any) -> float:
    """Return the seconds of one run of an agent without a budget, kernels compiled before."""
    env = gym.make(env_id)
    memplace_agents.make_agent(agent).solve(env, budget=2000)
    begin = time.perf_counter()
    memplace_agents.make_agent(agent, **options).solve(env, budget=10**9)
    return time.perf_counter() - begin


def step_seconds(env_id: str) -> float:
    """Return the median seconds of one `env.step` with random actions."""
    env = gym.make(env_id)
    env.reset(seed=0)
    spent, over = [], False
    for _ in range(2000):
        if over:
            env.reset()
        action = env.action_space.sample()
        begin = time.perf_counter()
        over = env.step(action)[2]
        spent.append(time.perf_counter() - begin)
    return statistics.median(spent)


def process_seconds(code: str, rounds: int = 7, **variables: str) -> float:
    """Return the median wall time of a new Python process that runs the code."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, **variables})
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def first_call_seconds() -> dict[str, float]:
    """Return the seconds of the first evaluation after building the environment: without a cache, and with one."""
    code = (
        "import time, gymnasium as gym, memplace_env, numpy as np;"
        "e = gym.make('MemPlace-ResNet50-v0').unwrapped; t = time.perf_counter();"
        "e.score(np.zeros((1, 114), dtype=int)); print(time.perf_counter() - t)"
    )

    def once(folder: str) -> float:
        variables = {**os.environ, "NUMBA_CACHE_DIR": folder}
        run = subprocess.run([sys.executable, "-c", code], check=True, env=variables, capture_output=True, text=True)
        return float(run.stdout)

    with tempfile.TemporaryDirectory() as folder:
        return {"ever": once(folder), "cached": once(folder)}


def load_figures(path: Path, **settings: Any) -> dict[str, float]:
    """Return the seconds to load a model, and the resident memory of a process that did nothing else."""
    seconds = best_seconds(lambda: memplace_env.load_onnx(path, **settings), rounds=3)
    return {"seconds": seconds, "resident_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def in_fresh_process(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the function's result from a process of its own."""
    with ProcessPoolExecutor(1) as pool:
        return pool.submit(function, *args, **kwargs).result()


def measure(quick: bool) -> dict[str, Any]:
    """Return all figures; `quick` leaves out the slow reference and the exact solver."""
    figures: dict[str, Any] = {
        "machine": {"processor": platform.processor() or platform.machine(), "cores": available_cores()},
        "maps_per_s_one_core": {name: in_fresh_process(vector_rate, name, 1) for name in WORKLOADS},
        "maps_per_s_all_cores": {name: in_fresh_process(vector_rate, name, None) for name in WORKLOADS},
        "env_step_us": {name: 1e6 * in_fresh_process(step_seconds, f"MemPlace-{name}-v0") for name in WORKLOADS},
        "env_step_us_of_a_decision_at_most": STEP_FLOOR_US,
        "steps": {
            "observed_decisions_per_cpu_s": in_fresh_process(steps_vector_rate, "BERT"),
            "floor": STEPS_FLOOR,
            "env_step_us": 1e6 * in_fresh_process(step_seconds, "MemPlaceSteps-BERT-v0"),
        },
        "game": {
            "rules_decisions_per_s_one_core": in_fresh_process(rules_rate, "BERT"),
            "observed_decisions_per_cpu_s": {
                f"{form}, {'new' if copy else 'the same'} arrays": in_fresh_process(game_vector_rate, form, copy=copy)
                for form in ("dict", "flat")
                for copy in (False, True)
            },
            "floor": GAME_FLOOR,
            "env_step_us": 1e6 * in_fresh_process(step_seconds, "MallocGame-BERT-v0"),
            "fork_us": 1e6 * in_fresh_process(fork_seconds, "BERT"),
        },
        "many_programs_steps_per_cpu_s": {
            "game_one_program": in_fresh_process(many_rate, "MallocGame-BERT-v0", skip_forced=True),
            "game": in_fresh_process(many_rate, "MallocGame-Train-v0"),
            "game_synthetic": in_fresh_process(many_rate, "MallocGame-Synthetic-v0"),
            "steps_one_program": in_fresh_process(many_rate, "MemPlaceSteps-BERT-v0"),
            "steps": in_fresh_process(many_rate, "MemPlaceSteps-Train-v0"),
            "steps_synthetic": in_fresh_process(many_rate, "MemPlaceSteps-Synthetic-v0"),
        },
        "ppo_steps_per_cpu_s": {
            "one_shot_readme": in_fresh_process(ppo_rate, "MemPlace-ResNet50-v0", 8192, "MlpPolicy", **README_ONE_SHOT),
            "one_shot_by_id": in_fresh_process(ppo_rate, "MemPlace-ResNet50-v0", 256, "MultiInputPolicy", n_steps=256),
            "game_readme": in_fresh_process(ppo_rate, "MallocGame-BERT-v0", 32768, "MlpPolicy", **README_GAME),
            "game_by_id": in_fresh_process(ppo_rate, "MallocGame-BERT-v0", 256, "MultiInputPolicy", n_steps=256),
        },
        **in_fresh_process(event_speed.figures),
        "import_beyond_gymnasium_s": process_seconds("import memplace_env") - process_seconds("import gymnasium"),
        "first_kernel_call_s": first_call_seconds(),
        "load_onnx": {
            "BERT": in_fresh_process(load_figures, zoo_path("BERT"), batch=1, dims={"sequence": 384}),
            "Llama-1B": in_fresh_process(load_figures, LLAMA, batch=1, dims={"sequence": 2048}),
        },
    }
    if not quick:
        plain = {name: reference_rate(name) for name in WORKLOADS}
        figures["reference_maps_per_s"] = plain
        figures["ratio_to_reference"] = {name: figures["maps_per_s_one_core"][name] / plain[name] for name in WORKLOADS}
        game = figures["game"]
        game["reference_decisions_per_s"] = reference_game_rate("BERT")
        game["ratio_to_reference"] = game["rules_decisions_per_s_one_core"] / game["reference_decisions_per_s"]
        game["xla_msa_bert_large_s"] = solver_seconds("xla-msa", "MallocGame-BERT-Large-v0")
        figures["exact"] = {}
        for name in WORKLOADS:
            solution = memplace_agents.make_agent("exact").solve(f"MemPlace-{name}-v0")
            figures["exact"][name] = {"seconds": solution.seconds, "outcome": solution.outcome, "gap": solution.gap}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out the slow reference and the exact solver")
    print(json.dumps(measure(parser.parse_args().quick), indent=2))


if __name__ == "__main__":
    main()
