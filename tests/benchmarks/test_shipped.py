"""The table of shipped models, and a model in a wheel that the test makes itself; nothing is fetched."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from benchmarks import shipped_files
from benchmarks.experiments import shipped
from benchmarks.shipped_files import NotThereError, Shipped, file_of, table_of
from tests.backends.ort.models import convolutional

HEAD = ",".join(Shipped._fields)


def test_the_table_has_at_least_24_models_of_its_packages() -> None:
    models = table_of()
    assert len(models) >= 24
    assert all(len(model.sha256) == 64 and model.path and model.version for model in models)
    assert all(isinstance(model.arguments(), dict) for model in models)
    assert len(shipped.settings()) == 2 * len(models)


def test_the_size_of_the_file_decides_the_chips() -> None:
    sizes = {model.name: model.bytes for model in table_of()}
    assert all((sizes[run["name"]] <= 1_000_000) == (run["chip"] in shipped.CHIPS[True]) for run in shipped.settings())


def test_options_are_flags_of_solve() -> None:
    row = "a,pypi,b,1,c.onnx,3,d,--batch 2 --dim x.0=1 --dim x.1=4 --value sr=16000 --trips 3 --cut y"
    model = Shipped(*row.split(","))  # type: ignore[arg-type]
    dims = {"x.0": 1, "x.1": 4}
    assert model.arguments() == {"batch": 2, "dims": dims, "values": {"sr": 16000}, "trips": 3, "cut": "y"}
    with pytest.raises(SystemExit):
        model._replace(options="--fusion none").arguments()


@pytest.mark.parametrize(
    "lines", ["name\na", f"{HEAD}\na,pypi,b", f"{HEAD}\n" + 2 * "a,pypi,b,1,c,3,d,\n", f"{HEAD}\na,cargo,b,1,c,3,d,"]
)
def test_a_table_of_another_form_is_refused(tmp_path: Path, lines: str) -> None:
    (tmp_path / "table.csv").write_text(lines)
    with pytest.raises(ValueError, match=r"table\.csv"):
        table_of(tmp_path / "table.csv")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shipped:
    """A model in a wheel and, in two chunks, in a tarball; a copy stands in for what indexes give, once."""
    content = convolutional(tmp_path / "net.onnx").read_bytes()
    with zipfile.ZipFile(tmp_path / "net-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("net/net.onnx", content)
    listed = json.dumps({"/net": {"chunks": [{"hash": "one"}, {"hash": "two"}]}}).encode()
    with tarfile.open(tmp_path / "net-1.0.tgz", "w:gz") as packed:
        for name, data in {"list.json": listed, "one": content[:9], "two": content[9:]}.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size = len(data)
            packed.addfile(entry, io.BytesIO(data))
    move = "import shutil, sys; shutil.move(sys.argv[1], '.')"
    archives = {"pypi": tmp_path / "net-1.0-py3-none-any.whl", "npm": tmp_path / "net-1.0.tgz"}
    commands = {registry: [sys.executable, "-c", move, str(archive)] for registry, archive in archives.items()}
    monkeypatch.setattr(shipped_files, "FETCH", commands)
    monkeypatch.setenv("MEMPLACE_SHIPPED", str(tmp_path / "cache"))
    one = Shipped("net", "pypi", "net", "1.0", "net/net.onnx", len(content), hashlib.sha256(content).hexdigest(), "")
    monkeypatch.setattr(shipped, "models", lambda: {one.name: one})
    return one


def test_a_file_is_fetched_once_and_checked(model: Shipped) -> None:
    path = file_of(model)
    assert (path.name, hashlib.sha256(path.read_bytes()).hexdigest()) == ("net.onnx", model.sha256)
    path.write_bytes(b"other")
    assert file_of(model) == path
    assert hashlib.sha256(path.read_bytes()).hexdigest() == model.sha256
    for wrong in (model._replace(path="net/other.onnx"), model._replace(sha256="0" * 64)):
        with pytest.raises(NotThereError, match=r"net 1\.0"):
            file_of(wrong)


def test_chunks_of_a_tarball_are_joined(model: Shipped) -> None:
    packed = model._replace(registry="npm", path="package/list.json#/net", sha256=model.sha256)
    assert file_of(packed).name == "net.onnx"
    with pytest.raises(NotThereError, match="has no"):
        file_of(packed._replace(path="package/list.json#/other", sha256="1" * 64))


def test_no_package_is_a_row(model: Shipped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_files, "FETCH", {"pypi": [sys.executable, "-c", "raise SystemExit(1)"]})
    run = {"name": "net", "chip": "nnp-i"}
    assert shipped.measure(run) == run | {"missing": "the index gave no package net 1.0"}
    (experiment,) = shipped.EXPERIMENTS
    assert not experiment.finished(shipped.measure(run))


def test_a_row_has_all_decisions_and_is_the_same_again(model: Shipped) -> None:
    rows = [shipped.measure({"name": "net", "chip": "ethos-u65-512"}) for _ in range(2)]
    plain = rows[0]["placement"]
    assert plain["bound_s"] <= plain["s"] <= rows[0]["native_s"]
    assert all(rows[0][name]["s"] <= plain["s"] * 1.001 for name in shipped.DECISIONS)
    assert rows[0]["executed"] is True
    rows = [{**row, "took_s": 0, **{name: {**row[name], "took_s": 0} for name in shipped.CHOICES}} for row in rows]
    assert rows[0] == rows[1]


def test_a_failure_is_a_row_with_its_reason(model: Shipped, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = model._replace(options="--cut nothing")
    monkeypatch.setattr(shipped, "models", lambda: {"net": broken})
    record = shipped.measure({"name": "net", "chip": "nnp-i"})
    assert "nothing" in record["failed"]
    assert "/" not in record["failed"].replace("--", "")
    said = {place for place, render in shipped.EXPERIMENTS[0].pages.items() if record["failed"] in render([record])}
    assert said == {"docs/model.md#shipped-models", "docs/data/shipped.csv"}
    assert "| nnp-i | 0 of 1 |" in shipped.EXPERIMENTS[0].pages["docs/model.md#shipped"]([record])
