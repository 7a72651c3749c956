"""`memplace calibrate`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memplace_env.machine.accelerator import load_accelerator
from tests.cli.conftest import MODEL, OTHER, Run
from tests.source import ROOT

HEADER = "model,latency_ms,batch,dtype,dims,plan\n"
QUICK = ("--fit", "DRAM.efficiency")
OUT = "nnp-i-calibrated.toml"


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """Three measurements."""
    path = tmp_path / "measured.csv"
    path.write_text(f'\ufeffmodel, latency_ms, dtype\n"{MODEL}",0.6,\n\n{OTHER},0.8,\nAlexNet, 1.2, int8\n')
    return path


def test_what_is_written_is_what_is_shown(parsed: Callable[..., Any], rows: Path, tmp_path: Path) -> None:
    found = parsed("calibrate", rows, *QUICK)
    assert found["written"] == OUT
    assert [row["name"] for row in found["measurements"]] == [MODEL, OTHER, "AlexNet, dtype int8"]
    assert [row["measured_s"] for row in found["measurements"]] == pytest.approx([6e-4, 8e-4, 1.2e-3])
    (constant,) = found["constants"]
    assert found["error_after"] < found["error_before"]
    chip, shipped = load_accelerator(tmp_path / OUT), load_accelerator("nnp-i")
    assert chip.name == "nnp-i-calibrated"
    share = chip.levels[-1].read_bytes_per_s / shipped.levels[-1].read_bytes_per_s
    assert share == pytest.approx(constant["after"], abs=1e-9)
    assert "Fitted by memplace calibrate to 3 measurements in measured.csv" in (tmp_path / OUT).read_text()
    for row, arguments in zip(
        found["measurements"], ((MODEL,), (OTHER,), ("AlexNet", "--dtype", "int8", "--batch", 1)), strict=True
    ):
        solved = parsed("solve", *arguments, "-a", OUT, "--agent", "random", "--budget", 4, "--bound", 0)
        assert solved["native_latency_s"] == row["after_s"]


def test_tables_and_overwriting(run: Run, rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    first = run("calibrate", rows, *QUICK)
    assert first.exit_code == 0, first.stderr
    for part in ("Constants of nnp-i", "DRAM.efficiency", "not asked for", "AlexNet, dtype int8", f"Written: {OUT}"):
        assert part in first.stdout
    again = run("calibrate", rows, *QUICK)
    assert again.exit_code == 2
    assert "exists already" in again.stderr
    written = (tmp_path / OUT).read_text()
    assert run("calibrate", rows, *QUICK, "--force", "--json").exit_code == 0
    assert (tmp_path / OUT).read_text() == written
    assert run("calibrate", rows, *QUICK, "--out", "deep/mine.toml").exit_code == 0
    assert (tmp_path / "deep" / "mine.toml").read_text() == written
    assert run("calibrate", rows, *QUICK, "--force", "--out", "deep").exit_code == 2


def test_settings_of_a_row(parsed: Callable[..., Any], saved: Path, tmp_path: Path) -> None:
    """Settings are those of the command line's flags; a plan is timed as it is."""
    (tmp_path / "m.csv").write_text(
        f"{HEADER}BERT,0.7,2,float16,sequence=32,\n{MODEL},0.02,,,,{saved}\n{MODEL},0.02,,,,\n"
    )
    found = parsed("calibrate", "m.csv", *QUICK, "--out", "o.toml")["measurements"]
    assert found[0]["name"] == "BERT, batch 2, dtype float16, dims sequence=32"
    flags = ("--batch", 2, "--dtype", "float16", "--dim", "sequence=32")
    random = ("--agent", "random", "--budget", 4, "--bound", 0)
    assert found[0]["before_s"] == parsed("solve", "BERT", *flags, *random)["native_latency_s"]
    timed = parsed("simulate", MODEL, saved)
    assert found[1]["before_s"] == timed["report"]["latency_s"]
    assert found[2]["before_s"] == timed["native_latency_s"]


def test_a_chip_of_the_users_own(run: Run, rows: Path, tmp_path: Path) -> None:
    preset = Path(load_accelerator.__code__.co_filename).with_name("presets") / "edge-tpu.toml"
    mine = preset.read_text().replace('name = "edge-tpu"', 'name = "my chip/2"')
    (tmp_path / "mine.toml").write_text(mine)
    rows.write_text("model,latency_ms\nAlexNet,30\n")
    result = run("calibrate", rows, "-a", "mine.toml", "--costs", "roofline", "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["written"] == "my-chip-2-calibrated.toml"
    assert load_accelerator(tmp_path / "my-chip-2-calibrated.toml").name == "my chip/2-calibrated"


@pytest.mark.slow
def test_the_example_of_the_documentation(parsed: Callable[..., Any]) -> None:
    found = parsed(
        "calibrate",
        ROOT / "benchmarks" / "data" / "simulated-not-measured.csv",
        "--accelerator",
        "nnp-i",
        "--costs",
        "roofline",
        "--patterns",
        "off",
        "--fusion",
        "conv",
    )
    after = {constant["name"]: constant["after"] for constant in found["constants"]}
    assert after["compute.efficiency"] == pytest.approx(0.6, rel=0.02)
    assert after["DRAM.efficiency"] == pytest.approx(0.7, rel=0.02)
    assert after["op_overhead_ns"] == pytest.approx(1500, rel=0.02)
    assert found["error_left_out"] < 0.03


BAD = {
    "no model column": ("latency_ms\n1\n", "line 1: there is no column model"),
    "empty": ("", "line 1: there is no column model"),
    "unknown column": ("model,latency_ms,latncy\n", "line 1: 'latncy' is not a column"),
    "near column": ("model,latency_ms,Batch\n", "did you mean batch?"),
    "column twice": ("model,latency_ms,model\n", "line 1: the column model is there twice"),
    "no rows": (HEADER + "\n,,,,,\n", "has no measurements"),
    "too few cells": (HEADER + "AlexNet,1\n", "line 2: it has 2 cells for 6 columns"),
    "no CSV": (HEADER + 'AlexNet,"1,,,,\n', "is not CSV"),
    "no latency": (HEADER + "AlexNet,,,,,\n", "line 2, column latency_ms: '' is not a latency"),
    "latency of zero": (HEADER + "AlexNet,0,,,,\n", "line 2, column latency_ms"),
    "no number": (HEADER + "AlexNet,1 ms,,,,\n", "line 2, column latency_ms"),
    "not finite": (HEADER + "AlexNet,nan,,,,\n", "line 2, column latency_ms"),
    "no model": (HEADER + "\n,1,,,,\n", "line 3, column model: it is empty"),
    "unknown model": (HEADER + "AlexNat,1,,,,\n", "line 2, column model: There is no workload 'AlexNat'"),
    "bad batch": (HEADER + "AlexNet,1,two,,,\n", "line 2, column batch: 'two'"),
    "long batch": (HEADER + f"AlexNet,1,{'9' * 5000},,,\n", "line 2, column batch: "),
    "long dims": (HEADER + f"BERT,1,,,sequence={'9' * 5000},\n", "line 2, column dims: it takes NAME=VALUE"),
    "bad dims": (HEADER + "BERT,1,,,sequence,\n", "line 2, column dims: it takes NAME=VALUE"),
    "unknown dim": (HEADER + "BERT,1,,,width=3,\n", "line 2, columns model, dims: "),
    "bad dtype": (HEADER + "AlexNet,1,,int9,,\n", "line 2, columns model, dtype: "),
    "missing plan": (HEADER + "AlexNet,1,,,,no.json\n", "line 2, column plan: Cannot read the plan no.json"),
    "too large": (HEADER + "GPT2,1,4000,,sequence=1024,\n", "line 2, columns model, batch, dims: "),
    "id of an environment": (HEADER + "MemPlace-BERR-v0,1,,,,\n", "did you mean 'MemPlace-BERT-v0'?"),
}


@pytest.mark.parametrize(("text", "named"), BAD.values(), ids=BAD.keys())
def test_one_sentence_and_nothing_written(run: Run, tmp_path: Path, text: str, named: str) -> None:
    (tmp_path / "m.csv").write_text(text)
    _refused(run("calibrate", "m.csv"), "m.csv", named)
    assert [path.name for path in tmp_path.iterdir()] == ["m.csv"]


def test_other_mistakes(run: Run, rows: Path, saved: Path, tmp_path: Path) -> None:
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe")
    (tmp_path / "long.csv").write_text(HEADER + "AlexNet,1,,,,\n" * 1001)
    (tmp_path / "plan.csv").write_text(f"model,latency_ms,plan\n{OTHER},1,{saved}\n")
    for arguments, named in (
        (["none.csv"], "none.csv: it cannot be read, No such file or directory"),
        (["bytes.csv"], "bytes.csv: it cannot be read"),
        (["/dev/zero"], "it is a device, not a regular file"),
        (["long.csv"], "line 1002: the limit is 1,000 measurements"),
        (["plan.csv"], "line 2, column plan: The plan cannot run: the plan was made for another program"),
        ([rows, "--fit", "dram"], "'dram' is not a constant of 'nnp-i'"),
        ([rows, "--fit", "SRAM.efficiency", "--fit", "SRAM.efficiency"], "once"),
        ([rows, *(flag for name in ("DRAM", "LLC", "SRAM", "compute") for flag in ("--fit", f"{name}.efficiency"))],
         "3 measurements cannot determine 4 constants"),
        ([rows, "-a", "none"], "'none' is not a shipped accelerator"),
        ([rows, "--costs", "none"], "No cost model is called 'none'"),
    ):  # fmt: skip
        _refused(run("calibrate", *arguments), named)
    assert not list(tmp_path.glob("*.toml"))


def _refused(result: Any, *named: str) -> None:
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr
    for each in named:
        assert each in result.stderr
