"""Files that are written whole or not at all, also when the disk is full or the process dies; folders with a lock."""

import errno
import os
import signal
import socket
from contextlib import closing, contextmanager
from threading import Thread

import pytest

from memplace_env._lib import files
from memplace_env._lib.errors import MemPlaceError
from memplace_env._lib.files import alone, is_empty, write_atomically, write_together

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


def test_links_stay_and_lead_to_what_is_written(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "real").write_text("old")
    (tmp_path / "a").symlink_to("second")
    (tmp_path / "second").symlink_to("elsewhere/real")
    (tmp_path / "b").symlink_to("nowhere/yet")  # dangles
    write_together(tmp_path, {"a": "new a", "b": "new b"})
    assert all((tmp_path / name).is_symlink() for name in ("a", "b", "second"))
    assert contents(tmp_path / "elsewhere") == {"real": "new a"}
    assert contents(tmp_path / "nowhere") == {"yet": "new b"}
    write_together(tmp_path, {"a": None})
    assert not (tmp_path / "a").is_symlink()
    assert contents(tmp_path / "elsewhere") == {"real": "new a"}


@pytest.mark.parametrize(
    ("leads", "message"),
    [("loop", "symbolic links"), ("b", "links to one"), ("gone/file", "No space")],
)
def test_links_that_cannot_be_followed_stop_all(leads, message, tmp_path, monkeypatch):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "gone").symlink_to("new")
    (tmp_path / "a").symlink_to(leads)
    with no_room(monkeypatch, ["open"], 2), pytest.raises(OSError, match=message):
        write_together(tmp_path, {"a": "1", "b": "2"})
    assert {path.name for path in tmp_path.iterdir()} == {"loop", "gone", "a"}


def received(writing, reading):
    """Return the bytes that come through a pipe while a file is written into it."""
    writing()
    return os.read(reading, 100)


def test_pipes_are_written_through_and_stay(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for name in ("pipe", "link"):
        assert received(lambda name=name: write_atomically(tmp_path / name, "new"), reading) == b"new"
    assert received(lambda: write_together(tmp_path, {"pipe": "through", "a": "beside"}), reading) == b"through"
    write_together(tmp_path, {"pipe": None})
    os.close(reading)
    assert (tmp_path / "pipe").is_fifo()
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "link", "a"}


@pytest.mark.parametrize("named", [True, False])
def test_what_standard_output_is_may_have_a_name_or_none(named, tmp_path):
    """A link as /dev/stdout is one: what was written before stays, and what is written afterwards comes behind it."""
    with open(tmp_path / "file", "w+") as file:
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{file.fileno()}")
        if not named:
            (tmp_path / "file").unlink()
        file.write("before, ")
        file.flush()
        write_atomically(tmp_path / "link", "new")
        file.seek(0, os.SEEK_END)
        file.write(", after")
        file.seek(0)
        assert file.read() == "before, new, after"
    assert (tmp_path / "link").is_symlink()


def test_permissions_are_handed_on(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    for mode in (0o600, 0o664, 0o400):
        path.chmod(mode)
        write_atomically(path, f"{mode}")
        assert path.stat().st_mode & 0o777 == mode
    before = os.umask(0o077)
    try:
        write_atomically(tmp_path / "fresh", "new")
    finally:
        os.umask(before)
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o600


def test_devices_are_written_through(tmp_path, monkeypatch):
    """A pipe that claims to be a device, as no test should write into one."""
    reading, writing = os.pipe()
    monkeypatch.setattr(files.stat, "S_ISFIFO", lambda mode: False)
    monkeypatch.setattr(files.stat, "S_ISCHR", files.stat.S_IFMT)
    (tmp_path / "device").symlink_to(f"/proc/self/fd/{writing}")
    assert received(lambda: write_atomically(tmp_path / "device", "new"), reading) == b"new"
    assert (tmp_path / "device").is_symlink()
    os.close(reading)
    os.close(writing)


def test_a_socket_in_the_place_of_a_file_stops_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # as sockets take only short paths
    write_together(tmp_path, OLD)
    with closing(socket.socket(socket.AF_UNIX)) as there:
        there.bind("c")
        with pytest.raises(OSError, match="it is not a file, a pipe or a character device"):
            write_together(tmp_path, NEW)
    assert (tmp_path / "c").is_socket()
    (tmp_path / "c").unlink()
    assert contents(tmp_path) == OLD


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
    files = contents(tmp_path)
    assert files.keys() == {"a", "b"}
    assert set(files.values()) <= set(texts)


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
    with pytest.raises(MemPlaceError, match="is not a folder"), alone(folder / "a"):
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


def test_files_that_are_not_wanted_any_more(tmp_path):
    write_together(tmp_path, OLD)
    asked = []

    def wanted():
        asked.append(sorted(path.name for path in tmp_path.iterdir() if path.name.endswith(".new")))
        return False

    assert not write_together(tmp_path, NEW, wanted=wanted)
    assert asked == [sorted(f".{name}.new" for name in NEW)]
    assert contents(tmp_path) == OLD
    assert not write_together(tmp_path / "new" / "folder", NEW, wanted=lambda: False)
    assert not (tmp_path / "new").exists()
