"""Measure speeds and print them as JSON: `make bench`, or `python -m benchmarks.speed [PROBE ...]`.

Each probe runs in a process of its own. Rates are the best of several rounds, times of whole processes the median. "One
core" means that the process may run on one core only.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import pstats
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO

import memplace_agents
from benchmarks.plain_c import compiled, evaluate_in_c, require_equal
from memplace_agents.learning.training import one_thread
from memplace_env._lib.threads import available_cores
from memplace_env.envs.registration import Formulation
from memplace_env.envs.wrappers import SB3VecEnv
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.compiler.compile import evaluate_assignments
from memplace_env.placement.compiler.placing_order import schedule_of
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import EventSimulator
from memplace_env.program.model_file import as_written

BATCH = 4096
GAME_SETTING = {
    "workload": "BERT",
    "batch": 64,
    "dims": {"sequence": 384},
    "costs": "roofline",
    **as_written(Formulation.GAME.traits.accelerator),
}
README_ONE_SHOT = {"num_envs": 256, "n_steps": 4, "batch_size": 1024, "n_epochs": 4, "learning_rate": 3e-3}
README_GAME = {"num_envs": 64, "n_steps": 64, "batch_size": 1024, "n_epochs": 4}


def best_seconds(run: Callable[[], Any], rounds: int = 5, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the least time of one call by a clock, after one to warm up."""
    run()
    times = []
    for _ in range(rounds):
        begin = clock()
        run()
        times.append(clock() - begin)
    return min(times)


def vector_rate(workload: str, cores: int | None) -> float:
    """Return assignments/s of the native vector environment: compile with offsets, simulate, reward."""
    if cores is not None:
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[:cores]))
    env = gym.make_vec(f"MemPlace-{workload}-v0", num_envs=BATCH, autoreset_mode="SameStep")
    env.reset(seed=0)
    assignments = np.random.default_rng(0).integers(0, 3, (BATCH, env.single_action_space.shape[0]))
    return BATCH / best_seconds(lambda: env.step(assignments))


def rules_rate(workload: str) -> float:
    """Return decisions/s of one core: random legal games without observations."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    problem = gym.make(f"MallocGame-{workload}-v0").unwrapped.problem
    games = 256
    seconds = best_seconds(lambda: problem.finish_randomly(problem.new_states(games), seed=0))
    return games * problem.num_decisions / seconds


def steps_rate(env_id: str, steps: int | None = None, **settings: Any) -> float:
    """Return steps per processor second of 256 observed episodes, once all is compiled and loaded: random actions.

    All begin in the same step; without a number of `steps` they are played to their end.
    """
    env = gym.make_vec(env_id, num_envs=256, **settings)
    env.reset(seed=0)
    length = env.unwrapped.problem.num_decisions if steps is None else steps
    choices = env.single_action_space.n  # type: ignore[attr-defined]
    actions = np.random.default_rng(0).integers(0, choices, (length, 256))
    rates = []
    for _ in range(4):  # the first compiles
        if steps is not None:
            env.reset(seed=0)
        begin = time.process_time()
        for played in actions:
            env.step(played)
        rates.append(actions.size / (time.process_time() - begin))
    return max(rates)


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


def jax_rates(env_id: str, decisions: int = 200) -> dict[str, Any]:
    """Return decisions/s of episodes in JAX with observations, by their number: the first ones of random legal play.

    On a CPU per processor second of one core, on another device per second; compilation is left out.
    """
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import jax
    import jax.numpy as jnp

    from memplace_env.envs.jax import jax_game, jax_game_tables, jax_steps

    steps, problem = env_id.startswith("MemPlaceSteps"), gym.make(env_id).unwrapped.problem  # type: ignore[attr-defined]
    rules: Any = jax_steps if steps else jax_game
    params: Any = jax_steps.steps_params(problem) if steps else jax_game_tables.game_params(problem)
    decisions = min(decisions, problem.num_decisions)

    def act(carry: Any, key: Any) -> Any:
        state, seen, paid = carry
        action = jax.random.categorical(key, jnp.where(state.mask, 0.0, -1e9))
        state, seen, reward, _ = jax.vmap(rules.step, in_axes=(0, 0, None))(state, action, params)
        return (state, seen, paid + reward + seen.sum(-1)), None  # nothing is left out as unused

    def play(key: Any, count: int) -> Any:
        begun = jax.vmap(lambda _: rules.init(None, params))(jnp.arange(count))
        return jax.lax.scan(act, (*begun, jnp.zeros(count)), jax.random.split(key, decisions))[0][2]

    device = jax.devices()[0]
    clock = time.process_time if device.platform == "cpu" else time.perf_counter
    rates: dict[str, Any] = {"device": device.device_kind, "jax": jax.__version__}
    for count in (256,) if device.platform == "cpu" else (256, 1024, 4096, 16384, 65536):
        played = partial(jax.jit(partial(play, count=count)), jax.random.key(0))
        seconds = best_seconds(lambda: jax.block_until_ready(played()), 3, clock)  # noqa: B023
        rates[str(count)] = round(count * decisions / seconds)
    return rates


def peer_rates(decisions: int = 200, count: int = 256) -> dict[str, Any]:
    """Return steps per processor second of one core, all in this process: random legal play with observations.

    CartPole is Gymnasium's native vector, 2048 that of Jumanji and of Pgx, which must be installed, with finished games
    begun anew; the others are this package's. Compilation is left out.
    """
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import jax
    import jax.numpy as jnp
    import jumanji
    import pgx
    from jumanji.wrappers import VmapAutoResetWrapper
    from pgx.experimental import auto_reset

    theirs = pgx.make("2048")
    reset_step = auto_reset(theirs.step, theirs.init)
    wrapped: Any = VmapAutoResetWrapper(jumanji.make("Game2048-v1"))

    def in_pgx(state: Any, key: Any) -> tuple[Any, Any]:
        actions = jax.random.categorical(key, jnp.where(state.legal_action_mask, 0.0, -1e9))
        state = jax.vmap(reset_step)(state, actions, jax.random.split(key, count))
        return state, state.rewards.sum() + state.observation.sum()

    def in_jumanji(both: Any, key: Any) -> tuple[Any, Any]:
        actions = jax.random.categorical(key, jnp.where(both[1].observation.action_mask, 0.0, -1e9))
        both = wrapped.step(both[0], actions)
        return both, both[1].reward.sum() + both[1].observation.board.sum()

    rates: dict[str, Any] = {"versions": {one.__name__: one.__version__ for one in (jax, jumanji, pgx)}}
    for name, begin, step in (("Pgx", jax.vmap(theirs.init), in_pgx), ("Jumanji", wrapped.reset, in_jumanji)):
        begun, played = begin(jax.random.split(jax.random.key(0), count)), jax.jit(partial(jax.lax.scan, step))
        keys = jax.random.split(jax.random.key(1), decisions)
        seconds = best_seconds(lambda: jax.block_until_ready(played(begun, keys)), 3, time.process_time)  # noqa: B023
        rates[f"2048 of {name}"] = round(count * decisions / seconds)
    rates["CartPole"] = round(steps_rate("CartPole-v1", 500, **CARTPOLE))
    for env_id in (STEPS, GAME):
        rates[f"{env_id}, kernels"] = round(steps_rate(env_id, observation="flat", **SAME_STEP))
        rates[f"{env_id}, JAX"] = jax_rates(env_id)[str(count)]
    return rates


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


def import_seconds(package: str, rounds: int = 7) -> float:
    """Return the median wall time of a new Python process that imports a package."""
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-c", f"import {package}"], check=True)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def event_ms(workload: str, chip: str, **settings: Any) -> float:
    """Return processor milliseconds of one core for the native plan on the event simulator, tables and report included.

    It should be at most 1 ms for BERT and 0.1 ms for ResNet50; our choice.
    """
    task = resolve_task(workload, chip, **settings, **as_written(chip))
    simulator, plan, rounds = EventSimulator(), native_plan(task), []
    for _ in range(6):  # the first compiles
        begin = time.process_time()
        for _ in range(50):
            simulator.run(task.program, task.accelerator, plan)
        rounds.append((time.process_time() - begin) / 50)
    return 1e3 * min(rounds)


def ratio_to_c(env_id: str, count: int = 4096, rounds: int = 15) -> dict[str, float]:
    """Return the kernels' speed over that of `plain_c.c` by gcc's flags, for random assignments and some near native's.

    All costs and levels of all assignments must be equal before anything is timed. Kernels and C take turns.
    """
    problem, rng = gym.make(env_id).unwrapped.problem, np.random.default_rng(0)  # type: ignore[attr-defined]
    schedule = schedule_of(problem.task, "weights-before-results")
    random, drawn = rng.integers(0, problem.task.backing + 1, (2, count, problem.num_decisions))
    near = np.where(rng.random(random.shape) < 0.03, drawn, problem.native_assignment)
    ratios = {}
    for kind, assignments in (("random", random), ("near native", near)):
        ours = partial(evaluate_assignments, schedule, assignments, problem.decision_of, threads=1)
        for flags in (("-O3",), ("-O3", "-march=native")):
            with tempfile.TemporaryDirectory() as folder:
                library = compiled(Path(folder), *flags)
            theirs = partial(evaluate_in_c, library, schedule, assignments, problem.decision_of)
            require_equal(ours(), theirs(), f"{env_id}, {kind}")
            least = [min(_processor_seconds(run) for _ in range(rounds)) for run in (ours, theirs)]
            ratios[f"{kind}, {' '.join(flags)}"] = least[1] / least[0]
    return ratios


def _processor_seconds(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def profile(agent: str, env_id: str, budget: int, parts: dict[str, Sequence[tuple[str, str]]]) -> dict[str, Any]:
    """Return the seconds of a run, and each part's fraction of the time under the profiler, which slows Python down.

    Args:
        agent: the agent.
        env_id: what it solves.
        budget: plans of the run.
        parts: functions of each part, by file and name; none of them calls another.
    """
    memplace_agents.make_agent(agent).solve(env_id, budget=budget // 10)  # imports, compiled kernels
    seconds = memplace_agents.make_agent(agent).solve(env_id, budget=budget).seconds
    profiler = cProfile.Profile()
    profiler.runcall(memplace_agents.make_agent(agent).solve, env_id, budget=budget)
    stats: Any = pstats.Stats(profiler)
    spent = {(file.rsplit("/", 1)[-1], name): value[3] for (file, _, name), value in stats.stats.items()}
    shares = {part: sum(spent.get(name, 0) for name in names) / stats.total_tt for part, names in parts.items()}
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"seconds": seconds, "shares": shares | {"rest": 1 - sum(shares.values())}, "peak_mb": peak_mb}


EGRL_PARTS: Final[dict[str, Sequence[tuple[str, str]]]] = {
    "simulator": [("evaluator.py", "__call__"), ("evaluator.py", "offer"), ("evaluator.py", "solution")],
    "networks": [("learner.py", "posterior"), ("learner.py", "learn")],
    "imagination": [("imagination.py", "imagined")],
    "surrogate": [("surrogate.py", "annealed"), ("surrogate.py", "observe")],
}
MUZERO_PARTS: Final[dict[str, Sequence[tuple[str, str]]]] = {
    "search": [("batched_search.py", "search")],
    "training": [("muzero_run.py", "_learn")],
    "sampling": [("factored_run.py", "step")],
    "annealing": [("player.py", "_anneal")],
}
BERT, GAME, STEPS, RESNET = "MemPlace-BERT-v0", "MallocGame-BERT-v0", "MemPlaceSteps-BERT-v0", "MemPlace-ResNet50-v0"
SAME_STEP: Final[dict[str, Any]] = {"autoreset_mode": "SameStep"}
CARTPOLE: Final[dict[str, Any]] = {"vectorization_mode": "vector_entry_point"}
"""Gymnasium's own native vector, in numpy."""
PROBES: Final[dict[str, Callable[[], Any]]] = {
    "assignments/s of BERT, one core": partial(vector_rate, "BERT", 1),
    "assignments/s of BERT, all cores": partial(vector_rate, "BERT", None),
    "assignments/s of ResNet50, one core": partial(vector_rate, "ResNet50", 1),
    "assignments/s of ResNet50, all cores": partial(vector_rate, "ResNet50", None),
    "kernels over C, BERT": partial(ratio_to_c, BERT),
    "kernels over C, ResNet50": partial(ratio_to_c, RESNET),
    "seconds of a one-shot step": partial(step_seconds, BERT),
    "seconds of a step of steps": partial(step_seconds, STEPS),  # a decision should take 40 us at most; our choice
    "seconds of a step of a game": partial(step_seconds, GAME),
    "seconds of a fork of a game": partial(fork_seconds, "BERT"),
    "decisions/s of a game, rules alone": partial(rules_rate, "BERT"),
    **{
        f"decisions/s of a game, {form}{', new arrays' if copy else ''}": partial(
            steps_rate, "MallocGame-v0", observation=form, copy=copy, **GAME_SETTING
        )
        for form in ("dict", "flat")
        for copy in (False, True)
    },  # 200,000 at least with the same arrays, and 300,000 in steps; our choice
    "steps/s of CartPole, for comparison": partial(steps_rate, "CartPole-v1", 500, **CARTPOLE),
    "decisions/s in steps": partial(steps_rate, STEPS, **SAME_STEP),
    "decisions/s in steps, ResNet50": partial(steps_rate, "MemPlaceSteps-ResNet50-v0", **SAME_STEP),
    "decisions/s in steps, many programs": partial(steps_rate, "MemPlaceSteps-Train-v0", 500, **SAME_STEP),
    "decisions/s in steps, synthetic": partial(steps_rate, "MemPlaceSteps-Synthetic-v0", 500, **SAME_STEP),
    "decisions/s of games, one program": partial(steps_rate, GAME, 500, skip_forced=True, **SAME_STEP),
    "decisions/s of games, many programs": partial(steps_rate, "MallocGame-Train-v0", 500, **SAME_STEP),
    "decisions/s of games, synthetic": partial(steps_rate, "MallocGame-Synthetic-v0", 500, **SAME_STEP),
    **{f"JAX, {env_id}": partial(jax_rates, env_id) for env_id in (STEPS, "MemPlaceSteps-ResNet50-v0", GAME)},
    "steps/s beside CartPole, Jumanji and Pgx": peer_rates,
    "PPO steps/s, one-shot": partial(ppo_rate, RESNET, 8192, "MlpPolicy", **README_ONE_SHOT),
    "PPO steps/s, one-shot by id": partial(ppo_rate, RESNET, 256, "MultiInputPolicy", n_steps=256),
    "PPO steps/s, game": partial(ppo_rate, GAME, 32768, "MlpPolicy", **README_GAME),
    "PPO steps/s, game by id": partial(ppo_rate, GAME, 256, "MultiInputPolicy", n_steps=256),
    "event ms, BERT nnp-i": partial(event_ms, "BERT", "nnp-i", dtype="float16", batch=16, dims={"sequence": 128}),
    "event ms, BERT npu": partial(event_ms, "BERT", "intel-npu-4000", dtype="int8", batch=1, dims={"sequence": 128}),
    "event ms, ResNet50 nnp-i": partial(event_ms, "ResNet50", "nnp-i", dtype="float16", batch=2),
    "event ms, ResNet50 npu": partial(event_ms, "ResNet50", "intel-npu-4000", dtype="int8", batch=1),
    "seconds to import": lambda: import_seconds("memplace_env") - import_seconds("gymnasium"),
    "egrl, ResNet50": partial(profile, "egrl", RESNET, 4000, EGRL_PARTS),
    "egrl, BERT": partial(profile, "egrl", BERT, 4000, EGRL_PARTS),
    "muzero, GPT2": partial(profile, "muzero", "MallocGame-GPT2-v0", 20_000, MUZERO_PARTS),
}
"""Functions by what they measure."""


def probe(name: str) -> Any:
    """Return what a probe measures."""
    return PROBES[name]()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="PROBE", help="words of names of probes (default: all probes)")
    words = parser.parse_args().words
    print(json.dumps({"processor": platform.processor() or platform.machine(), "cores": available_cores()}))
    for name in PROBES:
        if all(word in name for word in words):
            with ProcessPoolExecutor(1) as pool:
                print(json.dumps({name: pool.submit(probe, name).result()}), flush=True)


if __name__ == "__main__":
    main()
