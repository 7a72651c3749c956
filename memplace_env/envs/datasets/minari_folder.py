"""Episodes as a folder in the format of Minari (https://minari.farama.org), which offline-learning libraries read."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from memplace_env._lib.errors import EnvError
from memplace_env._lib.lazy import required
from memplace_env._lib.version import __version__
from memplace_env.envs.datasets.plan_episodes import Followed, PlanEpisode

DATA: Final = "data"
"""Folder within a dataset's folder that holds the data, as Minari wants it."""


def check_minari() -> None:
    """Check that Minari is installed, before a long search.

    Raises:
        EnvError: with the command that installs it.
    """
    for module, package in {"h5py": "h5py", "minari": "Minari"}.items():
        required(module, "Datasets need", package, "minari", EnvError)


def write_minari(
    folder: Path,
    env: Followed,
    episodes: Iterable[PlanEpisode],
    agent: str,
    replace: bool = False,
    grade: str = "",
    best: float | None = None,
) -> str:
    """Write a dataset into `folder / "data"`, compressed, all of it or nothing.

    `minari.MinariDataset(folder / "data")` reads it; `minari.load_dataset(id)` does if the folder is where Minari keeps
    that id.

    Args:
        folder: made if it is not there; no other process may write into it.
        env: the environment of the episodes, made by `gym.make` with `observation="flat"`; its spec is written too.
        episodes: the episodes, written one by one.
        agent: name of the agent whose plans they follow.
        replace: whether to replace a dataset that is there.
        grade: stands in the dataset's id in the place of the agent.
        best: the return that counts as 1 for `minari.get_normalized_score`; 0 counts as 0.

    Returns:
        the dataset's id, `memplace/<environment>/<agent or grade>-v0`.

    Raises:
        EnvError: if Minari is not installed, observations are not flat, or a dataset is there that shall not be
            replaced.
    """
    check_minari()
    if not env.flat:
        raise EnvError('A dataset holds flat observations; make the environment with observation="flat".')
    import minari
    from minari.dataset.minari_storage import MinariStorage

    check_free(folder, replace)
    folder = folder.absolute()  # Minari counts the bytes of a relative folder in the wrong place
    assert env.spec is not None
    dataset_id = f"memplace/{env.spec.name}/{grade or agent}-v0"
    new, old = folder / f".{DATA}.new", folder / f".{DATA}.old.new"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(new, ignore_errors=True)
    try:
        storage = MinariStorage.new(
            new, env.observation_space, env.action_space, env.spec, data_format="hdf5", jpeg_encoding=False
        )
        storage.update_metadata(
            {
                "dataset_id": dataset_id,
                "algorithm_name": agent,
                "minari_version": minari.__version__,
                "description": f"Episodes of {env.spec.id} that follow plans of the agent {agent}.",
                "requirements": [f"memplace=={__version__}"],
            }
        )
        if best is not None:
            storage.update_metadata({"ref_min_score": 0.0, "ref_max_score": best})
        storage.update_episodes(_buffers(episodes))
        _compress(new / "main_data.hdf5")
        storage.update_metadata({"dataset_size": storage.get_size()})
        if (folder / DATA).exists():
            (folder / DATA).rename(old)
        new.rename(folder / DATA)
    finally:
        if old.exists() and not (folder / DATA).exists():  # interrupted between the two
            old.rename(folder / DATA)
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return dataset_id


def check_free(folder: Path, replace: bool) -> None:
    """Check that a dataset may be written into a folder.

    Raises:
        EnvError: if there is one already that shall not be replaced, or something else.
    """
    data = folder / DATA
    if not data.exists():
        return
    if not (data / "metadata.json").is_file():
        raise EnvError(f"{data} exists and holds no dataset; pass another folder.")
    if not replace:
        raise EnvError(f"{data} holds a dataset already; pass another --out, or --force to replace it.")


def _compress(path: Path) -> None:
    """Write a file of episodes anew, compressed: a chunk is a whole array, as neighbouring observations are alike."""
    import h5py

    whole = path.with_suffix(".whole")
    path.rename(whole)
    with h5py.File(whole) as old, h5py.File(path, "w", track_order=True, libver="v110") as new:  # small heads

        def copy(name: str, item: Any) -> None:
            if isinstance(item, h5py.Group):
                new.create_group(name).attrs.update(item.attrs)
            else:
                form = {"chunks": item.shape, "maxshape": item.maxshape, "compression": "gzip", "compression_opts": 9}
                new.create_dataset(name, data=item[()], **form)

        old.visititems(copy)
    whole.unlink()


def _buffers(episodes: Iterable[PlanEpisode]) -> Iterator[Any]:
    from minari.data_collector import EpisodeBuffer

    for episode in episodes:
        steps = len(episode.rewards)
        observations: list[Any] = list(episode.observations)
        yield EpisodeBuffer(
            seed=episode.seed,
            observations=np.stack(observations),
            actions=np.stack(episode.actions),
            rewards=episode.rewards,
            terminations=[step == steps - 1 for step in range(steps)],
            truncations=[False] * steps,
            infos={key: np.array([info[key] for info in episode.infos]) for key in episode.infos[0]},
        )
