"""`submission.toml`: what a submission says of itself, as a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, fields
from pathlib import Path
from typing import Any, Final

import tomlkit

from memplace_env.errors import LeaderboardError
from memplace_env.files import write_atomically
from memplace_env.foreign import parse_toml
from memplace_env.leaderboard.folder import META_BYTES, read_bytes
from memplace_env.leaderboard.splits import FORMULATIONS
from memplace_env.leaderboard.submission import Meta, Training
from memplace_env.registration import Formulation

NAME: Final = re.compile(r"(?! )[A-Za-z0-9 ._()+-]{1,60}(?<! )")
"""Of rows: nothing in it looks like something else."""
LONGEST: Final = 200
"""Characters that a name, an author or a link may have."""
MOST: Final = 2**31
"""Above all seeds."""


def write_meta(path: Path, meta: Meta) -> Path:
    """Write it, whole or not at all."""
    table = {key: _plain(value) for key, value in asdict(meta).items() if value is not None}
    return write_atomically(path, tomlkit.dumps(table))


def read_meta(path: Path) -> Meta:
    """What a file says.

    Raises:
        LeaderboardError: naming the field that is missing, unknown or of the wrong kind.
    """
    try:
        table = parse_toml(read_bytes(path, META_BYTES).decode())
    except LeaderboardError:
        raise
    except ValueError as error:
        raise LeaderboardError(f"{path} is no TOML ({error}).") from None
    try:
        return _meta(table)
    except LeaderboardError as error:
        raise LeaderboardError(f"{path}: {error}") from None


def _meta(table: dict[str, Any]) -> Meta:
    known = {each.name: each for each in fields(Meta)}
    for name in table:
        if name not in known:
            raise LeaderboardError(f"there is no field {name!r}; the fields are {', '.join(known)}.")
    values = {name: _KINDS[name](name, value) for name, value in table.items()}
    for name, each in known.items():
        if name not in values and each.default is MISSING and each.default_factory is MISSING:
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


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise LeaderboardError(f"{name} must be 1 to 60 letters, digits, dots, brackets and hyphens, spaces within.")
    return value


def _link(name: str, value: Any) -> str:
    if _text(name, value) and not value.startswith(("https://", "http://")):
        raise LeaderboardError(f"{name} must begin with https://.")
    return str(value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise LeaderboardError(f"{name} must be true or false.")
    return value


def _texts(name: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > 1000:
        raise LeaderboardError(f"{name} must be a list of texts.")
    texts = tuple(_text(name, each) for each in value)
    if len(set(texts)) < len(texts):
        raise LeaderboardError(f"{name} has something twice.")
    return texts


def _some(name: str, value: Any) -> tuple[str, ...]:
    if not (texts := _texts(name, value)):
        raise LeaderboardError(f"{name} must not be empty.")
    return texts


def _formulations(name: str, value: Any) -> tuple[Formulation, ...]:
    if not all(each in FORMULATIONS for each in _some(name, value)):
        raise LeaderboardError(f"{name} must be of {' and '.join(FORMULATIONS)}.")
    return tuple(each for each in FORMULATIONS if each in value)


def _seeds(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(type(each) is int and 0 <= each < MOST for each in value):
        raise LeaderboardError(f"{name} must be a list of whole numbers from 0 to {MOST - 1}.")
    return tuple(value)


def _table(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise LeaderboardError(f"{name} must be a table.")
    return value


def _settings(name: str, value: Any) -> Mapping[str, Any]:
    for key, each in _table(name, value).items():
        _setting(f"{name}.{_text(f'a key of {name}', key)}", each)
    return dict(value)


def _setting(name: str, value: Any) -> None:
    """A text, a number, a flag, or a list of these."""
    for each in value if isinstance(value, list) else [value]:
        if isinstance(each, str):
            _text(name, each)
        elif not isinstance(each, int | float) or not abs(each) < 2**63:
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
    "name": _name,
    **dict.fromkeys(("agent", "suite", "suite_sha256", "track", "memplace"), _title),
    **dict.fromkeys(("deterministic", "nominal"), _flag),
    **dict.fromkeys(("options", "hardware"), _settings),
    "formulations": _formulations,
    "budgets": _some,
    "seeds": _seeds,
    "authors": _texts,
    "link": _link,
    "licence": _text,
    "training": _training,
}


def _plain(value: Any) -> Any:
    """Tuples as lists, and no None, which TOML does not have."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items() if each is not None}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
