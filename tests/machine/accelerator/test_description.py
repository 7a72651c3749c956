"""Chips' files with other numbers in them: the rest stays as it is, comments too."""

from __future__ import annotations

import difflib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.errors import AcceleratorError
from memplace_env.machine.accelerator import accelerator_names, load_accelerator
from memplace_env.machine.accelerator.description import Description
from tests.offenders import every
from tests.thorough import examples

VALUES = {
    ("compute", "op_overhead_ns"): Decimal("12.5"),
    ("compute", "efficiency"): Decimal("0.75"),
    ("memory", 0, "efficiency"): Decimal("0.5"),
}


@every("name", [*accelerator_names(), "nnp-i-streamed", "tpu-v4i-streamed"])
def test_rewriting(name: str, tmp_path: Path) -> None:
    """Only the name, the numbers and their sources differ."""
    description = Description.read(name)
    assert description.accelerator({}) == load_accelerator(name)
    values = {field: value for field, value in VALUES.items() if field[0] == "compute" or "ethos" in name}
    path = tmp_path / "new.toml"
    path.write_text(description.rewritten("new", values, "Measured."))
    assert load_accelerator(path) == replace(description.accelerator(values), name="new")
    lines = difflib.ndiff(description.text.splitlines(), path.read_text().splitlines())
    changed = [line[2:].split(" = ")[0] for line in lines if line[0] in "+-"]
    assert set(changed) == {"name", "op_overhead_ns", "efficiency"}


def test_comments_and_line_ends_stay(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = Description.read("edge-tpu").text.replace("[compute]\n", "# mine\n[compute]  # and this\n")
    path.write_bytes(text.replace("\n", "\r\n").encode())
    new = Description.read(path).rewritten("new", VALUES, "Measured.")
    assert "# mine" in new
    assert "[compute]  # and this" in new
    path.write_bytes(new.encode())
    assert load_accelerator(path).op_overhead_ps == 12_500


def test_a_file_without_sources_gets_some(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    lines = Description.read("edge-tpu").text.splitlines()
    kept, skipping = [], False
    for line in lines:
        skipping = "source" in line if line.startswith("[") else skipping
        kept += [] if skipping else [line]
    path.write_text("\n".join(kept) + "\n")
    path.write_text(Description.read(path).rewritten("new", VALUES, "Measured."))
    document = Description.read(path).document
    assert document["compute"]["source"] == {"op_overhead_ns": "Measured.", "efficiency": "Measured."}
    assert document["memory"][0]["source"] == {"efficiency": "Measured."}


@examples(40)
@given(st.decimals("0.000001", 1, places=6), st.decimals(0, 10**9, places=3))
def test_numbers_are_written_as_they_are(share: Decimal, overhead: Decimal) -> None:
    description = Description.read("nnp-i")
    values = {("compute", "efficiency"): share, ("compute", "op_overhead_ns"): overhead}
    assert 'name = "n"\n' in description.rewritten("n", values, "Measured.")  # it compares what it wrote


def test_numbers_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(AcceleratorError, match=r"nnp-i\.toml: compute\.efficiency must be between"):
        Description.read("nnp-i").accelerator({("compute", "efficiency"): Decimal(2)})
    (tmp_path / "bad.toml").write_text("schema = 1")
    for named, path in (("bad", tmp_path / "bad.toml"), ("absent", tmp_path / "absent.toml")):
        with pytest.raises(AcceleratorError, match=rf"{named}\.toml: "):
            Description.read(path)
