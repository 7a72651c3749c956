"""`memplace warm-up`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from memplace_env.cli.console import print_json, stdout
from memplace_env.cli.shared_options import JsonFlag
from memplace_env.envs.registration import Formulation

if TYPE_CHECKING:
    import gymnasium as gym

    from memplace_agents.built_in_agents import AgentSpec

PROGRAM: Final = "synthetic:diamond?ops=9&seed=1"
"""A program so small that compiling is nearly all the work."""
BUDGETS: Final = {"egrl": 200}
"""Plans after which an agent has used all of its kernels; 20 for the others."""
CHIPS: Final = ("nnp-i", "tpu-v4i")
"""A chip that keeps weights in place, and one that streams them: the two compilers of assignments."""
AGENTS: Final = {
    Formulation.ONE_SHOT: ("density-greedy", "local-search", "egrl"),
    Formulation.GAME: ("xla-msa", "game-local-search", "exact", "muzero"),
}
"""Agents that use all kernels of a formulation; those whose packages are missing are left out."""


def warm_up(
    formulation: Annotated[
        list[Formulation] | None,
        typer.Option("--formulation", help="Only the kernels of this formulation; repeat.", show_default="all"),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Compile the kernels that solving, playing and gym.make need, which otherwise happens when one is first used.

    Vectors of ids that draw programs compile kernels of their own at first use.

    Machine code is kept in NUMBA_CACHE_DIR if that is set, else beside the package or in the user's cache folder, until
    memplace is updated. --json prints kernels (functions compiled now), seconds and processor_seconds.
    """
    from memplace_env._lib.compilation import announcing, compiled_kernels
    from memplace_env.cli.agent_run import new_bar

    begin, spent, before = time.perf_counter(), time.process_time(), compiled_kernels()
    jobs = [job for kind in formulation or _JOBS for job in _JOBS[kind]()]
    with new_bar(True) as bar:
        line = bar.add_task("compiling kernels", total=len(jobs))
        with announcing(lambda count: bar.update(line, description=f"compiling kernels, {count - before} so far")):
            for job in jobs:
                job()
                bar.advance(line)
    kernels = compiled_kernels() - before
    seconds, processor = time.perf_counter() - begin, time.process_time() - spent
    if json:
        print_json({"kernels": kernels, "seconds": seconds, "processor_seconds": processor})
        return
    done = f"Compiled {kernels} functions" if kernels else "Every kernel was compiled already"
    stdout().print(f"{done}; that took {processor:.1f} s of the processor.")


Job = Callable[[], None]


def _assignments() -> list[Job]:
    searches = [job for chip in CHIPS for job in _searches(Formulation.ONE_SHOT, accelerator=chip)]
    return [*searches, partial(_simulate, "event")]


def _steps() -> list[Job]:
    return [partial(_play, Formulation.STEPS, accelerator=chip) for chip in CHIPS]


def _games() -> list[Job]:
    plays = [partial(_play, Formulation.GAME, observation=observation) for observation in ("dict", "flat")]
    return [*plays, _end_games, *_searches(Formulation.GAME), _pack]


def _dynamic() -> list[Job]:
    return _searches(Formulation.DYNAMIC, accelerator=CHIPS[1])


_JOBS: Final[Mapping[Formulation, Callable[[], list[Job]]]] = {
    Formulation.ONE_SHOT: _assignments,
    Formulation.STEPS: _steps,
    Formulation.GAME: _games,
    Formulation.DYNAMIC: _dynamic,
}


def _searches(formulation: Formulation, **options: Any) -> list[Job]:
    """Return a search of each agent that uses kernels of its own, and of the default one."""
    from memplace_agents.registry import DEFAULTS, agent_spec

    specs = map(agent_spec, (*AGENTS.get(formulation, ()), DEFAULTS[formulation]))
    return [partial(_solve, spec, formulation, options) for spec in specs if spec.missing_packages is None]


def _solve(spec: AgentSpec, formulation: Formulation, options: Mapping[str, Any]) -> None:
    spec.make().solve(_made(formulation, options), budget=BUDGETS.get(spec.name, 20), seed=0)


def _simulate(simulator: str) -> None:
    """Time a plan by another simulator than the built-in one."""
    from memplace_env.placement.compiler import native_plan
    from memplace_env.placement.resolve_task import resolve_task
    from memplace_env.placement.simulator import evaluate_plan

    task = resolve_task(PROGRAM, CHIPS[0], simulator)
    evaluate_plan(task, native_plan(task))


def _play(formulation: Formulation, **options: Any) -> None:
    """Take one step of an environment, and of a vector of them."""
    import gymnasium as gym

    env = _made(formulation, options)
    env.reset(seed=0)
    env.step(int(env.unwrapped.action_masks().argmax()))  # type: ignore[attr-defined]
    _step(gym.make_vec(formulation.traits.env_id(), num_envs=4, workload=PROGRAM, **options))


def _step(envs: Any) -> None:
    envs.reset(seed=0)
    envs.step(envs.unwrapped.action_masks().argmax(axis=1))


def _end_games() -> None:
    """Finish games and return to states, as `memplace play` and pictures of plans do."""
    import numpy as np

    env: Any = _made(Formulation.GAME, {"skip_forced": True}).unwrapped
    env.reset(seed=0)
    problem, states = env.problem, env.problem.new_states(1)
    problem.finish_greedily(states)
    env.set_state(states[0])
    problem.replay(problem.new_states(1), np.zeros((1, problem.num_decisions), dtype=np.int64))


def _pack() -> None:
    """Pack blocks in each way of XLA's heap and of the exact agent, which programs as small as this one do without."""
    import numpy as np

    from memplace_agents.xla_msa.heap import Heap
    from memplace_env.placement.addresses.address_search import Blocks, fit

    heap = Heap(0, 1)
    heap.place(0, 1, 0, 0, 0)
    heap.repack()
    # Twelve blocks that no order of placing packs; without effort neither does the tree search, so that the climb runs.
    first, size = np.random.default_rng(16).integers(1, 9, size=(2, 12))
    last = first + size[::-1] % 4
    load = max(size[(first <= op) & (last >= op)].sum() for op in first)
    fit(Blocks(size, first, last, np.full(12, load)), effort=0)


def _made(formulation: Formulation, options: Mapping[str, Any]) -> gym.Env[Any, Any]:
    import gymnasium as gym

    return gym.make(f"memplace_env:{formulation.traits.env_id()}", workload=PROGRAM, **options)
