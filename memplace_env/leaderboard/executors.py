"""Many runs: one after the other, in processes of this machine, or on a Ray cluster; the results are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from memplace_env.errors import WorkerError
from memplace_env.processes import Crew

T = TypeVar("T")
R = TypeVar("R")


def run_all(
    tasks: Iterable[T],
    work: Callable[[T], R],
    workers: int = 1,
    ray: str | None = None,
    name: Callable[[T], str] = repr,
) -> Iterator[tuple[T, R]]:
    """Each task with what the function returns of it, as they are done.

    Workers and nodes that die lose nothing: what they did is done again, up to three times in all. An interrupt, or
    closing the iterator, ends them.

    Args:
        tasks: picklable, where this process does not do them itself.
        work: the function, picklable likewise. What it needs from the folder that Python was started in is found.
        workers: processes of this machine, each on a core of its own; with 1 this process does everything. More than
            there are cores share them, so that seconds compare no more.
        ray: address of a Ray cluster, as `ray.init` takes it, or "local" for one on this machine; it does the tasks
            then, one core each. Its machines need this package and what `work` imports.
        name: what messages call a task.

    Raises:
        WorkerError: if there are no workers, Ray is missing or cannot be reached, or workers die over one task again
            and again.
        Exception: what the function raises.
    """
    if workers < 1:
        raise WorkerError(f"{workers} workers get nothing done; pass at least 1.")
    if ray is not None:
        from memplace_env.leaderboard.ray_cluster import run_on_ray

        return run_on_ray(tasks, work, ray, name)
    if workers == 1:
        return ((task, work(task)) for task in tasks)
    return _in_processes(list(tasks), work, workers, name)


def _in_processes(
    tasks: list[T], work: Callable[[T], R], workers: int, name: Callable[[T], str]
) -> Iterator[tuple[T, R]]:
    with Crew(workers, pinned=True) as crew:
        for place, result in crew.each(work, tasks, name):
            yield tasks[place], result
