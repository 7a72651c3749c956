"""The file `submission.toml`, the description of a submission."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

import tomlkit

from memplace_env._lib.errors import LeaderboardError
from memplace_env._lib.files import write_atomically
from memplace_env._lib.foreign import parse_toml
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import FORMULATIONS
from memplace_leaderboard.folder import META_BYTES, read_bytes
from memplace_leaderboard.submission import Meta, Training

NAME: Final = re.compile(r"(?! )[A-Za-z0-9 ._()+-]{1,60}(?<! )")
"""Pattern of names of rows: characters that cannot be mistaken for others."""
LONGEST: Final = 200
"""Characters that a text, such as an author, may have."""
ITEMS: Final = 200
"""Items of a list or a table."""
FORMS: Final = {
    "name": (NAME, "1 to 60 letters, digits, dots, brackets and hyphens, spaces within"),
    "link": (re.compile(r"(https?://[!-~]{1,190})?"), "an address without spaces that begins with https://"),
    "licence": (re.compile(r"[A-Za-z0-9 .,/()+-]{0,60}"), "at most 60 letters, digits and signs, as Apache-2.0"),
    "made": (re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})?"), "a day, as 2026-01-31"),
    "memplace": (re.compile(r"[A-Za-z0-9.+!-]{1,40}"), "a version, as 1.0.0"),
    "suite_sha256": (re.compile(r"[0-9a-f]{64}"), "64 hexadecimal digits"),
}
"""Patterns of texts, and what they allow in words."""
FORMATS: Final = (1, 2)
"""Formats that are read, see `Meta`."""
MOST: Final = 2**31
"""Upper limit of seeds, exclusive; that of machines' seeds is `MOST**2`."""


def write_meta(path: Path, meta: Meta) -> Path:
    """Write a description; the file is replaced as a whole or not at all."""
    table = {key: _plain(value) for key, value in asdict(meta).items() if value is not None}
    return write_atomically(path, tomlkit.dumps(table))


def read_meta(path: Path) -> Meta:
    """Read a description.

    Raises:
        LeaderboardError: naming the field that is missing, unknown or of the wrong kind.
    """
    try:
        table = parse_toml(read_bytes(path, META_BYTES).decode())
    except LeaderboardError:
        raise
    except ValueError as error:
        raise LeaderboardError(f"{path} is not TOML ({error}).") from None
    try:
        return _meta(table)
    except LeaderboardError as error:
        raise LeaderboardError(f"{path}: {error}") from None


def check_form(meta: Meta) -> None:
    """Raise a LeaderboardError if `read_meta` would not read what `write_meta` writes."""
    _meta({key: _plain(value) for key, value in asdict(meta).items() if value is not None})


def _meta(table: dict[str, Any]) -> Meta:
    declared = {field.name: field for field in fields(Meta)}
    for name in table:
        if name not in declared:
            raise LeaderboardError(f"there is no field {name!r}; the fields are {', '.join(declared)}.")
    values = {name: _KINDS[name](name, value) for name, value in table.items()}
    for name, field in declared.items():
        if name not in values and field.default is MISSING and field.default_factory is MISSING:
            raise LeaderboardError(f"the field {name!r} is missing.")
    return Meta(**values)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        raise LeaderboardError(f"{name} must be one line of at most {LONGEST} characters.")
    return value


def _title(name: str, value: Any) -> str:
    if not _text(name, value).strip():
        raise LeaderboardError(f"{name} must not be empty.")
    return str(value)


def _formed(name: str, value: Any) -> str:
    pattern, form = FORMS[name]
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise LeaderboardError(f"{name} must be {form}.")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise LeaderboardError(f"{name} must be true or false.")
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > ITEMS:
        raise LeaderboardError(f"{name} must be a list of texts.")
    texts = tuple(_text(name, item) for item in value)
    if len(set(texts)) < len(texts):
        raise LeaderboardError(f"{name} has an item twice.")
    return texts


def _some(name: str, value: Any) -> tuple[str, ...]:
    if not (texts := _texts(name, value)):
        raise LeaderboardError(f"{name} must not be empty.")
    return texts


def _formulations(name: str, value: Any) -> tuple[Formulation, ...]:
    if not all(item in FORMULATIONS for item in _some(name, value)):
        raise LeaderboardError(f"{name} must be a list of {' and '.join(FORMULATIONS)}.")
    return tuple(kind for kind in FORMULATIONS if kind in value)


def _seeds(name: str, value: Any, most: int = MOST) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(seed) is int and 0 <= seed < most for seed in value):
        raise LeaderboardError(f"{name} must be a list of whole numbers from 0 to {most - 1}.")
    return tuple(value)


def _source(name: str, value: Any) -> Mapping[str, str]:
    table = _table(name, value)
    if table and (set(table) != {"kind", "name", "version", "sha256"} or table["kind"] not in ("file", "package")):
        raise LeaderboardError(f"{name} must have kind (file or package), name, version and sha256.")
    for key, item in table.items():
        _text(f"{name}.{key}", item)
    if table and not str(table["name"]).replace("-", "_").replace(".", "_").isidentifier():
        raise LeaderboardError(f"{name}.name must be the name of a module or a package.")
    return dict(table)


def _format(name: str, value: Any) -> int:
    if type(value) is not int or value not in FORMATS:
        raise LeaderboardError(f"{name} must be {' or '.join(map(str, FORMATS))}; install a newer memplace.")
    return value


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict) or len(value) > ITEMS:
        raise LeaderboardError(f"{name} must be a table of at most {ITEMS:,} items.")
    return value


def _settings(name: str, value: Any) -> Mapping[str, Any]:
    for key, item in _table(name, value).items():
        _setting(f"{name}.{_text(f'a key of {name}', key)}", item)
    return dict(value)


def _setting(name: str, value: Any) -> None:
    """Require a text, a number, a flag, or a list of these."""
    for item in value if isinstance(value, list) and len(value) <= ITEMS else [value]:
        if isinstance(item, str):
            _text(name, item)
        elif not isinstance(item, int | float) or not abs(item) < 2**63:
            raise LeaderboardError(f"{name} must be a text, a number, true or false, or a list of these.")


def _training(name: str, value: Any) -> Training:
    table = _table(name, value)
    if set(table) != {"ids", "plans", "seconds"}:
        raise LeaderboardError(f"{name} must have ids, plans and seconds.")
    plans, seconds = table["plans"], table["seconds"]
    if type(plans) is not int or not 0 < plans < 2**63 or type(seconds) not in (int, float) or not 0 <= seconds < 1e12:
        raise LeaderboardError(f"{name}.plans must be a whole number above 0, and {name}.seconds a number.")
    return Training(_some(f"{name}.ids", table["ids"]), plans, float(seconds))


_KINDS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    **dict.fromkeys(FORMS, _formed),
    **dict.fromkeys(("agent", "suite", "track"), _title),
    **dict.fromkeys(("deterministic", "nominal"), _flag),
    **dict.fromkeys(("options", "hardware"), _settings),
    "formulations": _formulations,
    "budgets": _some,
    "seeds": _seeds,
    "machine_seeds": partial(_seeds, most=MOST**2),
    "authors": _texts,
    "machines_of": _text,
    "training": _training,
    "source": _source,
    "format": _format,
}


def _plain(value: Any) -> Any:
    """Turn tuples into lists and leave out None, which TOML lacks."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
