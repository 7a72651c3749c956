"""`memplace pack`: files in and out, exit codes, pins and banks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from memplace_env.cli.app import app
from tests.cli.conftest import Run
from tests.source import ROOT

CSV = "id,lower,upper,size\na,0,2,4\nb,1,3,3\nc,2,4,4\n"


@pytest.fixture(autouse=True)
def file(run: Run) -> None:
    Path("blocks.csv").write_text(CSV)


def test_files_come_back_with_offsets(run: Run, parsed: Callable[..., Any]) -> None:
    done = run("pack", "blocks.csv", "--out", "packed.csv", "--picture", "packed.png")
    assert done.exit_code == 0, done.stderr
    assert "3 blocks lie in 7 bytes, no arena is smaller." in done.stdout
    assert Path("packed.png").read_bytes().startswith(b"\x89PNG")
    assert Path("packed.csv").read_text().startswith("id,lower,upper,size,alignment,offset\na,0,2,4,1,")
    assert run("pack", "packed.csv", "--out", "packed.json", "--capacity", 7).exit_code == 0
    document = json.loads(Path("packed.json").read_text())
    assert document["outcome"] == "found"
    assert all(block["pin"] == block["offset"] for block in document["blocks"])
    assert parsed("pack", "packed.json")["blocks"] == document["blocks"]


def test_pipes(run: Run) -> None:
    done = CliRunner().invoke(app, ["pack", "-", "--out", "-"], input=CSV)
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 4)
    again = CliRunner().invoke(app, ["pack", "-", "--json", "--out", "-"], input=done.stdout)
    assert json.loads(again.stdout)["banks"][0]["arena"] == 7


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--capacity", 7), 0, "lie in 7 bytes"),
        (("--capacity", 6), 3, "at least 7 bytes are needed"),
        (("--align", 4), 0, "lie in 7 bytes"),
        (("--pin", "a=0", "--pin", "b=0"), 3, "It is proven that there are no addresses"),
        (("--pin", "b=0"), 0, "lie in 7 bytes"),
        (("--pin", "b=2"), 0, "lie in 9 bytes, no arena is smaller"),
    ],
)
def test_exit_codes(options: tuple[object, ...], code: int, said: str, run: Run) -> None:
    done = run("pack", "blocks.csv", *options)
    assert (done.exit_code, said in done.stdout) == (code, True), done.output


def test_nothing_found_has_a_code_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    with ZipFile(ROOT / "benchmarks" / "data" / "minimalloc.zip") as archive:
        archive.extract("A.csv")
    monkeypatch.setattr(
        "memplace_env.placement.addresses.memory_packing.pack.__kwdefaults__", {"align": 1, "pin": -1, "work": 1000}
    )
    done = run("pack", "A.csv", "--capacity", 2**20, "--out", "packed.csv")
    assert done.exit_code == 4
    assert "No addresses were found: 1,048,576 bytes are needed" in done.stdout
    assert not Path("packed.csv").exists()


def test_banks_are_packed_apart(run: Run, parsed: Callable[..., Any]) -> None:
    rows = [{"id": name, "size": 5, "first": 0, "last": 1, "bank": name[0]} for name in ("x1", "y1", "y2")]
    Path("banks.json").write_text(json.dumps(rows))
    document = parsed("pack", "banks.json")
    assert [(bank["bank"], bank["arena"]) for bank in document["banks"]] == [("x", 5), ("y", 10)]
    assert "y: 2 blocks lie in 10 bytes" in run("pack", "banks.json").stdout
    assert "one bank" in run("pack", "banks.json", "--picture", "x.png").stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no blocks"),
        ("id,upper,size\na,1,3\n", "'first' is missing"),
        ("id,lower,upper,size\na,0,1,x\n", "holds no blocks"),
        ("id,lower,upper,size\na,0,0,1\n", "an end not before the start"),
        ("id,lower,upper,size\na,0,1,1\na,0,1,1\n", "two blocks of one id"),
        ('{"blocks": [{"id": "a", "size": 1.5, "first": 0, "last": 1}]}', "not a whole number"),
        ("{", "holds no blocks"),
        ("[" * 10**5, "nested too deeply"),
        ("[5]", "holds no blocks"),
    ],
)
def test_bad_files(text: str, said: str, run: Run) -> None:
    Path("bad.csv").write_text(text)
    done = run("pack", "bad.csv")
    assert (done.exit_code, said in done.stderr, len(done.stderr.splitlines())) == (2, True, 1), done.output


def test_pins_that_name_no_block(run: Run) -> None:
    for pin in ("d=0", "a", "a=-1"):
        done = run("pack", "blocks.csv", "--pin", pin)
        assert (done.exit_code, "--pin takes ID=OFFSET" in done.stderr) == (2, True)
