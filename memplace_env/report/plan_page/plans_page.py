"""Plans of a task as one HTML file, which any browser opens without a server and without a network."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Sequence
from typing import Final

from memplace_env._lib.version import __version__
from memplace_env.placement.task import Task
from memplace_env.report.plan_page.page_files import script_json, shared_files, texts_in
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
