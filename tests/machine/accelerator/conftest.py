"""Descriptions of chips, written and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from memplace_env.machine.accelerator import Accelerator, load_accelerator
from tests.fuzz.documents import document_to_toml
from tests.machine.accelerator.documents import Document, Read


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("accelerator") / "mine.toml"


@pytest.fixture(scope="module")
def read(file: Path) -> Read:
    def write_and_load(document: Document) -> Accelerator:
        file.write_text(document_to_toml(document), encoding="utf-8")
        return load_accelerator(file)

    return write_and_load
