"""Scripts, styles and data of pages: the files that all pages share, and values as safe text within a script."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Final

from memplace_env._lib.errors import VisualizationError

_UNSAFE: Final = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def shared_files() -> dict[str, str]:
    """Return the scripts and the style of all pages with plans, by file name."""
    return texts_in("static")


def texts_in(folder: str, package: str = "memplace_env.report.plan_page") -> dict[str, str]:
    """Return the texts of the pages, scripts and styles in a folder of a package, by file name."""
    found = {
        source.name: source.read_text(encoding="utf-8")
        for source in files(package).joinpath(folder).iterdir()
        if source.name.endswith((".html", ".js", ".css"))
    }
    return dict(sorted(found.items()))


def script_json(value: object) -> str:
    """Return compact JSON that is safe within a script, in a file of its own or in HTML: ASCII without <, > and &.

    Raises:
        VisualizationError: if the value holds something that JSON lacks, such as NaN.
    """
    try:
        text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise VisualizationError(f"The page's data is not plain JSON: {error}.") from None
    for letter, escape in _UNSAFE.items():
        text = text.replace(letter, escape)
    return text
