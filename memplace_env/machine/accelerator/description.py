"""A chip's TOML file, to be rewritten with other numbers in the same order and with the same comments."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit
from tomlkit.items import InlineTable

from memplace_env._lib.errors import AcceleratorError
from memplace_env.machine.accelerator.accelerator import STREAMED, Accelerator
from memplace_env.machine.accelerator.load import build, find, parse, read

Field = tuple[str | int, ...]
"""Path of a value in the file, such as ("memory", 1, "efficiency")."""


class Description(NamedTuple):
    """The file of one chip.

    Attributes:
        path: path of the file.
        text: its contents.
        document: the same, parsed, with numbers as int and Decimal.
    """

    path: Path
    text: str
    document: Mapping[str, Any]

    @classmethod
    def read(cls, name_or_path: str | Path) -> Description:
        """Return the description that `load_accelerator` loads, for a "-streamed" chip as if it had its own file.

        Raises:
            AcceleratorError: as `load_accelerator`.
        """
        if str(name_or_path).endswith(STREAMED) and not os.path.exists(name_or_path):
            plain = cls._load(str(name_or_path).removesuffix(STREAMED))
            name = str(plain.document["name"])
            if plain.document["weights"] == "streamed":
                return plain
            return plain._parsed(_rewritten(plain.text, {("name",): name + STREAMED, ("weights",): "streamed"}))
        return cls._load(name_or_path)

    @classmethod
    def _load(cls, name_or_path: str | Path) -> Description:
        path = find(name_or_path)
        try:
            text = read(path)
            description = cls(path, text, parse(text))
        except AcceleratorError as error:
            raise AcceleratorError(f"{path}: {error}") from None
        description.accelerator({})
        return description

    def accelerator(self, values: Mapping[Field, Decimal]) -> Accelerator:
        """Return the chip with other numbers in some fields.

        Raises:
            AcceleratorError: if a number cannot be, or the file itself is wrong.
        """
        document = copy.deepcopy(dict(self.document))
        for field, value in values.items():
            _table_of(document, field)[field[-1]] = value
        try:
            return build(document)
        except AcceleratorError as error:
            raise AcceleratorError(f"{self.path}: {error}") from None

    def rewritten(self, name: str, values: Mapping[Field, Decimal], source: str) -> str:
        """Return the file with another name and other numbers; `source`, one line, is noted as their source.

        Raises:
            AcceleratorError: if that is no description of the same chip with these numbers.
        """
        sources = {(*field[:-1], "source", field[-1]): source for field in values}
        text = _rewritten(self.text, {("name",): name, **values, **sources})
        changed, wanted = self._parsed(text).accelerator({}), replace(self.accelerator(values), name=name)
        if changed.sha256 != wanted.sha256:
            raise AcceleratorError(f"{self.path}: it cannot be rewritten as it is: put every table under a [header]")
        return text

    def _parsed(self, text: str) -> Description:
        return self._replace(text=text, document=parse(text))


def _rewritten(text: str, values: Mapping[Field, Any]) -> str:
    document = tomlkit.parse(text)
    for field, value in values.items():
        shown = tomlkit.value(f"{value.normalize():f}") if isinstance(value, Decimal) else value
        _table_of(document, field)[field[-1]] = shown
    return tomlkit.dumps(document)


def _table_of(document: Any, field: Field) -> Any:
    """Return the table that a field is in, made if there is none."""
    table = document
    for key in field[:-1]:
        if isinstance(key, str) and key not in table:
            inline = isinstance(table, InlineTable)
            table[key] = tomlkit.inline_table() if inline else tomlkit.table()
        table = table[key]
    return table
