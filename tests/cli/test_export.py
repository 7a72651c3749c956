"""`memplace export`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplace_env.placement.compiler.density import density_greedy
from memplace_env.placement.resolve_task import resolve_task
from tests.backends.export.expected import tables_in
from tests.backends.export.test_tflite import NETWORKS, metadata_in
from tests.cli.conftest import MODEL, OTHER, Run
from tests.patience import patience


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """A .tflite file and a plan for it, in the folder that `run` works in."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(NETWORKS / "resnet8.tflite", "net.tflite")
    density_greedy(resolve_task("net.tflite", "ethos-u65", fusion="none")).save("plan.json")
    return "net.tflite", "plan.json"


def test_a_header(saved: Path, run: Run, parsed: Callable[..., Any]) -> None:
    said = parsed("export", MODEL, saved, "--format", "c", "--out", "new/plan.h", "--prefix", "memplace")
    text = Path("new/plan.h").read_text()
    tables = tables_in(text)
    assert said["written"] == "new/plan.h"
    assert said["format"] == "c"
    assert said["bytes"] == len(text)
    assert {name: said[name] for name in tables if name in said} == {
        name: len(rows) for name, rows in tables.items() if name != "uses"
    }
    assert f'memplace_program_sha256[] = "{said["program_sha256"]}"' in text
    assert f'memplace_accelerator_sha256[] = "{said["accelerator_sha256"]}"' in text
    assert "Written: again.h (3 levels, 19 tensors" in run("export", MODEL, saved, "--out", "again.h").stdout
    assert Path("again.h").read_text() == text


def test_the_smallest_arena(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run, parsed: Callable[..., Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    smallest = ("--smallest",)
    for name, smaller in (("resnet8", False), ("mobilenet_v1_025", True)):
        before = Path(shutil.copy(NETWORKS / f"{name}.tflite", "net.tflite")).read_bytes()
        said = parsed("export", "net.tflite", *smallest, "--out", "packed.tflite")
        assert (said["bytes"], said["kept"]) == (Path("packed.tflite").stat().st_size, not smaller)
        assert (Path("packed.tflite").read_bytes() == before) == (not smaller)
    assert (said["runtime_bytes"], said["arena_bytes"], said["bound_bytes"]) == (401408, 301056, 301056)
    told = run("export", "net.tflite", *smallest, "--out", "packed.tflite").stdout
    assert "takes 401,408 bytes, this plan 301,056; no arena is smaller.\nWritten: packed.tflite" in told


def test_no_smallest_arena_of_what_is_no_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.chdir(tmp_path)
    good = (NETWORKS / "resnet8.tflite").read_bytes()
    Path("text.tflite").write_bytes(b"no model at all")
    Path("cut.tflite").write_bytes(good[:8] + b"\xff" * 100)
    Path("good.tflite").write_bytes(good)

    def said(name: str) -> str:
        refused = run("export", name, "--format", "tflite", "--smallest", "--out", "x.tflite")
        assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
        return refused.stderr

    assert "text.tflite: The file is not a TensorFlow Lite model" in said("text.tflite")
    assert "cut.tflite: The file is damaged or cut short; get it again." in said("cut.tflite")
    assert "pass a .tflite file." in said("README.md")
    assert "pass a .tflite file." in run("export", "README.md", "--smallest", "--out", "x").stderr
    for name in [name for name in sys.modules if "backends.export" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tflite", None)
    assert 'pip install "memplace[tflite]"' in said("good.tflite")


def test_a_table(saved: Path, run: Run, parsed: Callable[..., Any]) -> None:
    said = parsed("export", MODEL, saved, "--format", "csv", "--out", "plan.csv")
    heads, *lines = Path("plan.csv").read_text().splitlines()
    assert heads.startswith("tensor,kind,level,offset,size,first,last,")
    assert said["blocks"] == len(lines) > 0
    assert (
        "leave it out with --format csv"
        in run("export", MODEL, saved, "--format", "csv", "--prefix", "a", "--out", "b").stderr
    )


def test_a_header_through_a_pipe(saved: Path, run: Run) -> None:
    assert run("export", MODEL, saved, "--out", "plan.h").exit_code == 0
    text = Path("plan.h").read_bytes()
    os.mkfifo("pipe")
    reading = os.open("pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert run("export", MODEL, saved, "--out", "pipe").exit_code == 0
    assert os.read(reading, len(text) + 1) == text
    os.close(reading)
    assert Path("pipe").is_fifo()
    Path("stdout").symlink_to("/proc/self/fd/1")
    command = [sys.executable, "-m", "memplace", "export", MODEL, str(saved), "--out", "stdout"]
    done = subprocess.run(command, capture_output=True, timeout=patience(60))
    assert (done.returncode, done.stdout) == (0, text)
    assert done.stderr.startswith(b"Written: stdout (")
    assert Path("stdout").is_symlink()


def test_an_offline_plan(network: tuple[str, str], run: Run, parsed: Callable[..., Any]) -> None:
    said = parsed("export", *network, "--format", "tflite", "--out", "planned.tflite")
    offsets = metadata_in(Path("planned.tflite").read_bytes())[3:]
    assert said["bytes"] == Path("planned.tflite").stat().st_size
    assert said["tensors"] == len(offsets)
    assert said["planned"] == sum(offset >= 0 for offset in offsets) > 0
    assert max(offsets) < said["arena_bytes"]
    assert run("validate", "planned.tflite", network[1]).exit_code == 0
    told = run("export", *network, "--format", "tflite", "--out", "planned.tflite").stdout
    assert f"{said['planned']} tensors with offsets below {said['arena_bytes']:,} bytes; at run time: " in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((MODEL, "--format", "tflite", "--out", "x.h"), "writes a copy of a .tflite file"),
        ((MODEL, "--format", "tflight", "--out", "x.h"), "'tflight'"),
        ((OTHER, "--out", "x.h"), "made for another program"),
        ((MODEL, "--out", "."), "is a folder"),
        ((MODEL, "--out", "plan.json/x.h"), "cannot be written"),
        ((MODEL, "--out", "x.h", "--prefix", "a b"), "cannot begin names in C"),
        ((MODEL, "--out", "x.h", "--prefix", ""), "cannot begin names in C"),
        ((MODEL, "--out", "x.h", "--accelerator", "tpu-v4i"), "made for another accelerator"),
        (("no.tflite", "--format", "tflite", "--out", "x.h"), "There is no file no.tflite"),
        ((MODEL,), "--out"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_sentence(
    arguments: tuple[str, ...], said: str, saved: Path, run: Run
) -> None:
    shutil.copy(saved, "plan.json")
    refused = run("export", arguments[0], "plan.json", *arguments[1:])
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert [path.name for path in Path().iterdir()] == ["plan.json"]


def test_what_makes_no_sense_for_a_tflite_file(network: tuple[str, str], run: Run) -> None:
    before = Path("net.tflite").read_bytes()
    for more, said in (
        (("--out", "net.tflite"), "is the model itself"),
        (("--out", "x.tflite", "--prefix", "net"), "--prefix begins names"),
        (("--out", "x.tflite", "--check"), "--check goes with --smallest"),
        (("--out", "x.tflite", "--smallest"), "takes a .tflite file alone"),
    ):
        refused = run("export", *network, "--format", "tflite", *more)
        assert (refused.exit_code, len(refused.stderr.splitlines())) == (2, 1)
        assert said in refused.stderr
    assert Path("net.tflite").read_bytes() == before
    assert not Path("x.tflite").exists()
