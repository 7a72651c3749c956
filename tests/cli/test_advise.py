"""`memplace advise`: a row for each decision that is open, none slower than the model as it is."""

import json

import pytest

from memplace_agents import advice
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advice, "MOVES_WORK", 1.0)
    monkeypatch.setattr(advice, "ORDER_WORK", 0.02)


def test_every_open_decision_has_a_row(run: Run) -> None:
    rows = json.loads(run("advise", "AlexNet", "--batch", "1", "--fusion", "epilogue", "--json").stdout)
    first, *others = rows
    assert first["decision"] == "as it is"
    assert first["gain"] == 0
    assert [row["decision"] for row in others[:4]] == ["results in place", "slices", "all of these", "order of ops"]
    assert [row["flags"] for row in others[:2]] == ["--in-place rows", "--slices 0.1"]
    assert others[-1]["decision"].endswith("MiB")
    for row in others:
        assert row["latency_s"] <= first["latency_s"] * 1.0001
        assert row["bound_s"] is None or row["bound_s"] <= row["latency_s"]
        assert not row["proven"] or row["bound_s"] * 1.0002 >= row["latency_s"]


def test_what_is_decided_has_no_row(run: Run) -> None:
    shown = run("advise", "synthetic:chain?ops=6", "--slices", "0.5", "-a", "edge-tpu").stdout
    assert "in place" not in shown
    assert "--slices" not in shown
    assert "tensors that move" in shown
