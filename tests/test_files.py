"""Files that are written whole or not at all, also when the disk is full or the process dies; folders with a lock."""

import errno
import os
import signal
from contextlib import contextmanager
from threading import Thread

import pytest

from memplace_env import files
from memplace_env.errors import MemPlaceError
from memplace_env.files import alone, is_empty, write_atomically, write_together

OLD, NEW = {"a": "old a", "b": "old b"}, {"a": "new a", "b": b"new b", "c": "new c"}


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


@contextmanager
def no_room(monkeypatch, calls, at):
    """The call number `at` of any of these functions of os fails as on a full disk."""
    count = 0

    def counted(real):
        def call(*arguments, **named):
            nonlocal count
            count += 1
            if count == at:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        for name in calls:
            patched.setattr(files.os, name, counted(getattr(os, name)))
        yield


@pytest.mark.parametrize("at", range(1, 10))
def test_without_room_the_old_files_stand(at, tmp_path, monkeypatch):
    write_together(tmp_path, OLD)
    with no_room(monkeypatch, ("open", "ftruncate", "fdopen"), at), pytest.raises(OSError, match="No space"):
        write_together(tmp_path, NEW)
    assert contents(tmp_path) == OLD
    write_together(tmp_path, {**NEW, "a": None})
    assert contents(tmp_path) == {"b": "new b", "c": "new c"}


def test_folders_made_for_nothing_go(tmp_path, monkeypatch):
    with no_room(monkeypatch, ["open"], 2), pytest.raises(OSError, match="No space"):
        write_together(tmp_path / "new" / "folder", NEW)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_a_file_stops_all(tmp_path):
    write_together(tmp_path, OLD)
    (tmp_path / "c").mkdir()
    with pytest.raises(IsADirectoryError):
        write_together(tmp_path, NEW)
    (tmp_path / "c").rmdir()
    assert contents(tmp_path) == OLD


def test_what_a_killed_process_left_is_overwritten(tmp_path):
    (tmp_path / ".a.new").write_text("half of it, longer than what comes")
    assert is_empty(tmp_path)
    write_atomically(tmp_path / "a", "new")
    assert contents(tmp_path) == {"a": "new"}
    assert not is_empty(tmp_path)


def test_links_and_pipes_that_lie_in_wait_are_not_written(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / ".a.new").symlink_to(victim)
    os.mkfifo(tmp_path / ".b.new")
    for name in "ab":
        with pytest.raises(OSError, match=rf"\.{name}\.new"):
            write_atomically(tmp_path / name, "new")
    assert victim.read_text() == "mine"


def test_writers_of_one_file_wait_for_each_other(tmp_path):
    texts = [str(number) * 100_000 for number in range(4)]

    def write(text):
        for _ in range(25):
            write_together(tmp_path, {"a": text, "b": text})

    threads = [Thread(target=write, args=[text]) for text in texts]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        if (tmp_path / "a").exists():
            assert (tmp_path / "a").read_text() in texts
    for thread in threads:
        thread.join()
    found = contents(tmp_path)
    assert found.keys() == {"a", "b"}
    assert set(found.values()) <= set(texts)


def test_one_process_at_a_time(tmp_path):
    folder = tmp_path / "new" / "out"
    with alone(folder):
        with pytest.raises(MemPlaceError, match="Another run writes into"), alone(folder):
            pass
        assert folder.is_dir()
    assert list(tmp_path.iterdir()) == []  # as nothing was written
    with alone(folder):
        (folder / "a").write_text("a")
    assert contents(folder) == {"a": "a"}
    with pytest.raises(MemPlaceError, match="is no folder"), alone(folder / "a"):
        pass


def test_a_lock_ends_with_its_process(tmp_path):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        with alone(tmp_path):
            os.write(writing, b"locked")
            signal.pause()
        os._exit(0)
    assert os.read(reading, 6) == b"locked"
    with pytest.raises(MemPlaceError, match="Another run"), alone(tmp_path):
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with alone(tmp_path):
        pass
