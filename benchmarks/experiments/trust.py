"""README's table of how far figures may be trusted, from the records of other experiments."""

from __future__ import annotations

import json
from collections import Counter

from benchmarks.experiments import audit, proofs, shipped, vela
from benchmarks.harness import ROOT, Experiment, Records, as_rows, heads, table
from memplace_env.envs.best_known import known_results
from memplace_leaderboard.suite import load_suite

SPOILED = ROOT / "benchmarks" / "results" / "fuzz.jsonl"
"""Counts of `python -m tests.fuzz`; what is neither accepted nor refused as it should be is a failure."""


def rows(records: Records = ()) -> list[dict[str, str]]:
    """Return what was asked, and how often the answer was yes, or how large an error is."""
    said = Counter(record["answer"] for record in audit.EXPERIMENTS[0].recorded())
    ran: dict[str, list[bool]] = {one["name"]: [] for one in shipped.EXPERIMENTS[0].recorded()}
    for one in shipped.EXPERIMENTS[0].recorded():
        ran[one["name"]] += [one["executed"]] if isinstance(one.get("executed"), bool) else []
    spoiled = [json.loads(line) for line in SPOILED.read_text("utf-8").splitlines()]
    cases = sum(batch["stop"] - batch["first"] for batch in spoiled)
    sound = sum(batch["accepted"] + batch["refused"] for batch in spoiled)
    held_out = [one for one in vela.OPERATORS.recorded() if one["data"] == "vela-held-out"]
    new = [one["other"] > vela.NOTED_SHARE for one in held_out]
    errors = [
        vela.error(one["tiled"] for one, is_new in zip(held_out, new, strict=True) if is_new == n) for n in (0, 1)
    ]
    cells = [
        *((f"{what}, proven", _proven(suite)) for suite, what in proofs.SUITES.items()),
        ("proofs confirmed and refuted by SCIP", f"{said['no']} of {said.total()}, {said['yes']}"),
        (
            f"shipped models executed right, of {len(ran)}",
            f"{sum(all(right) for right in ran.values() if right)} of {sum(map(bool, ran.values()))}",
        ),
        ("spoiled files and calls without harm", f"{sound:,} of {cases:,}"),
        *(
            (f"error beside Vela, held out, {kind}", f"{mean:.0%}, {worst:.0%} at worst")
            for kind, (mean, worst) in zip(("same operators", "others"), errors, strict=True)
        ),
        ("goal, missed", f"{vela.UNSEEN['mean']:.0%}, {vela.UNSEEN['worst']:.0%} at worst"),
    ]
    return list(as_rows(["what", "measured"], cells))


def _proven(suite: str) -> str:
    """Return how many of a suite's best known plans are proven."""
    known = [known_results()[env_id] for env_id in load_suite(suite).instances]
    return f"{sum(one.best_ps <= one.bound_ps * (1 + proofs.OPEN) for one in known)} of {len(known)}"


EXPERIMENTS = [Experiment("trust", __doc__, {"README.md#trust": table(heads, rows)})]
