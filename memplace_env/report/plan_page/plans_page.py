"""Plans of a task as one HTML file, which any browser opens without a server and without a network."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from memplace_env._lib.errors import VisualizationError
from memplace_env._lib.version import __version__
from memplace_env.placement.task import Task
from memplace_env.report.plan_page.plan_document import plan_document
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, all_backing_baseline
from memplace_env.report.plans.headlines import task_title

_ORDER: Final = (
    "theme.js", "dom.js", "axis.js", "picture.js", "hover.js", "gestures.js", "viewer.js", "plan_tables.js",
)  # fmt: skip
"""Scripts of the picture; each uses those before it."""


def plans_page(task: Task, plans: Sequence[EvaluatedPlan], notes: Sequence[str] = ()) -> str:
    """Return a page of a task's plans as HTML; the same plans give the same text.

    It draws two of them at once, first the last two: blocks by address and time, one plan above the other.

    Args:
        task: the task.
        plans: at least one plan, each with its name.
        notes: further sentences for the head of the page.
    """
    shared, own = shared_files(), texts_in("one_file")
    script = "\n".join([*(shared[name] for name in _ORDER), own["plans_page.js"]])
    first = max(0, len(plans) - 2)
    lead = f"{task.program.num_ops:,} ops. Savings are against all tensors in {task.accelerator.levels[-1].name}."
    data = {
        "title": task_title(task),
        "lead": " ".join((lead, *notes)),
        "version": __version__,
        "plans": [{"name": evaluated.name, "key": evaluated.plan.key} for evaluated in plans],
        "shown": [first, first + 1] if len(plans) > 1 else [0, "none"],
        "document": plan_document(task, all_backing_baseline(task), plans),
    }
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "SCRIPT-HASH": f"sha256-{digest}",
        "STYLES": shared["page.css"],
        "DATA": script_json(data),
        "SCRIPTS": script,
    }
    # In one pass, so that a name in the data cannot be taken for one of these words.
    return re.sub("|".join(parts), lambda word: parts[word[0]], own["plans.html"])


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
