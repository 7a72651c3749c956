"""Parts of third parties, as if they were installed."""

from typing import Any

import pytest

from memplace_env._lib import plugins


class Point:
    """An entry point that loads one object, or fails to."""

    def __init__(self, name: str, part: Any) -> None:
        self.name, self.part = name, part

    def load(self) -> Any:
        if isinstance(self.part, Exception):
            raise self.part
        return self.part


def install(monkeypatch: pytest.MonkeyPatch, group: str, **parts: Any) -> None:
    """Parts under a group of entry points, by name; an exception is raised when its point is loaded."""
    points = [Point(name, part) for name, part in parts.items()]
    monkeypatch.setattr(
        plugins, "entry_points", lambda group_asked=None, **kwargs: points if kwargs == {"group": group} else []
    )
