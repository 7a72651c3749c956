"""Many runs: one after the other, in processes of this machine, or on a Ray cluster, with the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from memplace_env._lib.errors import WorkerError
from memplace_env._lib.processes import Crew

T = TypeVar("T")
R = TypeVar("R")


def run_all(
    tasks: Iterable[T],
    work: Callable[[T], R],
    workers: int = 1,
    ray: str | None = None,
    name: Callable[[T], str] = repr,
) -> Iterator[tuple[T, R]]:
    """Yield each task with the function's result, as they finish.

    A task whose worker or node dies is done again, up to three times in all. An interrupt, or closing the iterator,
    ends the workers.

    Args:
        tasks: picklable, unless this process does them itself.
        work: the function, picklable likewise; it may import from the folder that Python was started in.
        workers: processes of this machine, each on a core of its own; with 1 this process does everything. If there are
            fewer cores they are shared, so that seconds no longer compare.
        ray: address of a Ray cluster that does the tasks instead, one core each, as `ray.init` takes it, or "local" for
            one on this machine. Its machines need this package and what `work` imports.
        name: returns the name of a task in messages.

    Raises:
        WorkerError: if `workers` is below 1, Ray is missing or cannot be reached, or workers die over one task
            repeatedly.
        Exception: raised by the function.
    """
    if workers < 1:
        raise WorkerError(f"workers must be at least 1, not {workers}.")
    if ray is not None:
        from memplace_leaderboard.ray_cluster import run_on_ray

        return run_on_ray(tasks, work, ray, name)
    if workers == 1:
        return ((task, work(task)) for task in tasks)
    return _in_processes(list(tasks), work, workers, name)


def _in_processes(
    tasks: list[T], work: Callable[[T], R], workers: int, name: Callable[[T], str]
) -> Iterator[tuple[T, R]]:
    with Crew(workers, pinned=True) as crew:
        for index, result in crew.map_unordered(work, tasks, name):
            yield tasks[index], result
