"""Zero-shot policies: trained on programs of one kind, tested on unseen families; docs/policy.md.

    python -m benchmarks.policy --plans                   # solve the programs exactly, what is missing
    python -m benchmarks.policy [--seeds 3]               # train and test, what is missing
    python -m benchmarks.policy --saved --write docs/policy.md    # table and picture of what is recorded

A policy decides the entries of `MemPlaceSteps` on settings of its `Train` split. It is tested on the one-shot ids of
the test split and on the settings of `MemPlaceSteps-Test-v0`: no group of families is in both. Training is resumed from
its checkpoint in out/policy to the same bits. Shares are of the proven gain over native; those below -100 % count as
-100 %. One plan is the likeliest one, more are the best of it and samples.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from rich.progress import track

import memplace_env  # noqa: F401 (registers the ids)
from benchmarks.learning.curves import Panel, draw
from benchmarks.ledger import Ledger, Record
from benchmarks.policy_cases import (  # fmt: skip
    KEY,
    PLANS,
    Case,
    settings,
    solved,
    test_ids,
    test_settings,
    training,
    validation_settings,
)
from benchmarks.tables import benchmark_parser, markdown_table, publish
from memplace_agents.learning import safe_files
from memplace_agents.learning.flat_policy import FlatPolicy
from memplace_agents.learning.torch_threads import one_thread
from memplace_agents.policy import PolicyRun, PolicySettings, ProgramEpisodes
from memplace_agents.policy.policy_run import played_ps
from memplace_env._lib.files import write_atomically
from memplace_env.envs.splits import Split, group_of

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "policy.jsonl"
CHECKPOINTS = ROOT / "out" / "policy"
CHECKPOINT_KIND: Final = "zero-shot-run/1"

COUNTS: Final = (1, 10, 100)
"""Numbers of plans."""
CAUTIONS: Final = (0.0, 1.0, 2.0, 4.0)
"""Biases towards the best rule's decisions; each policy gets the one with the best mean on the validation settings."""
SIZES: Final = (4, 16, 45)
"""Numbers of training programs; the last is all."""
VARIANTS: Final = {"rules, graph": (True, True), "rules": (True, False), "graph": (False, True)}
"""Flags of `ProgramEpisodes` by name: whether the policy sees the rules' plans, and its neighbours in the graph."""
STAGES: Final = ("best rule", "imitation", "reward")
"""Stages of tests: the best rule, and the policy after each part of its training."""
EVERY: Final = 10
"""Rounds between checkpoints."""


@cache
def episodes_of(case: Case, variant: str) -> ProgramEpisodes:
    """Return the episodes of a program, made once for all runs of a variant."""
    return ProgramEpisodes(case.problem, *VARIANTS[variant])


def runs(seeds: int) -> list[Record]:
    """Return the runs: all programs first, then fewer programs, then less to see."""
    first = next(iter(VARIANTS))
    cells = [(first, size) for size in reversed(SIZES)] + [(other, SIZES[-1]) for other in VARIANTS if other != first]
    return [{"variant": v, "programs": n, "seed": seed} for v, n in cells for seed in range(seeds)]


def stages(run: Record) -> list[Record]:
    """Return the records of a run; only the first variant, on all programs, goes on to reward."""
    whole = run["variant"] == next(iter(VARIANTS)) and run["programs"] == SIZES[-1]
    return [{**run, "stage": stage} for stage in STAGES[1 : 3 if whole else 2]]


def measure(run: Record) -> Iterator[Record]:
    """Train, and yield a record of the tests after each stage."""
    names, cases, exact = training(run["programs"])
    programs = [episodes_of(case, run["variant"]) for case in cases]
    training_run, spent = PolicyRun(PolicySettings(), programs, exact, run["seed"]), 0.0
    path = CHECKPOINTS / f"{run['variant'].replace(', ', '-')}-{run['programs']}-{run['seed']}.safetensors"
    if path.exists():
        saved = safe_files.load(path, CHECKPOINT_KIND)
        training_run.load_state_dict(saved["run"])
        spent = saved["cpu_s"]
    ends = [training_run.settings.imitation_rounds, training_run.settings.reward_rounds]
    for stage, end in zip(stages(run), np.cumsum(ends).tolist(), strict=False):
        while training_run.round < end:
            began = time.process_time()
            training_run.step()
            spent += time.process_time() - began
            if training_run.round % EVERY == 0:
                path.parent.mkdir(parents=True, exist_ok=True)
                safe_files.save(path, CHECKPOINT_KIND, {"run": training_run.state_dict(), "cpu_s": spent})
        if training_run.round == end:
            about = {**stage, "settings": len(cases), "trained_on": names, "cpu_s": round(spent, 1)}
            yield {**about, **tested(training_run.policy, run["variant"]), **provenance()}


def tested(policy: FlatPolicy, variant: str) -> Record:
    """Return shares in percent on the test: by id, and by setting with one plan.

    `ids` are those of each number of plans with the caution chosen, `bold` those of one plan without any.
    """

    def shares(cases: Sequence[Case], caution: float) -> dict[str, float]:
        played = {case: played_ps(policy, episodes_of(case, variant), 1, None, caution)[0] for case in cases}
        return {case.name: round(case.share(int(latency)), 2) for case, latency in played.items()}

    validation = [float(np.mean([*shares(validation_settings(), caution).values()])) for caution in CAUTIONS]
    caution = CAUTIONS[int(np.argmax(np.round(validation, 2)))]
    by_id = {name: [share] for name, share in shares(test_ids(), caution).items()}
    for case in test_ids():
        rng = np.random.default_rng(0)
        sampled = played_ps(policy, episodes_of(case, variant), COUNTS[-1] - 1, rng, caution)
        by_id[case.name] += [
            max(by_id[case.name][0], round(case.share(int(sampled[: count - 1].min())), 2)) for count in COUNTS[1:]
        ]
    bold, settings_began = shares(test_ids(), 0.0), time.process_time()
    by_setting = shares(test_settings(), caution)
    decisions = sum(episodes_of(case, variant).length for case in test_settings())
    return {
        "caution": caution,
        "validation": [round(share, 2) for share in validation],
        "ids": by_id,
        "bold": bold,
        "test_settings": by_setting,
        "us_per_decision": round(1e6 * (time.process_time() - settings_began) / decisions),
    }


def provenance() -> Record:
    """Return the commit and the date."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {"commit": commit.stdout.strip(), "date": time.strftime("%Y-%m-%d")}


def rules() -> Record:
    """Return the record of the best rule, with shares as `tested` gives them."""

    def shares(cases: Sequence[Case]) -> dict[str, float]:
        return {case.name: round(case.share(episodes_of(case, "rules").rule_ps), 2) for case in cases}

    by_id = {name: [share] for name, share in shares(test_ids()).items()}
    return {"stage": "best rule", "ids": by_id, "test_settings": shares(test_settings()), **provenance()}


def means(record: Record, best_rule: Record) -> list[float]:
    """Return mean shares: bold; with 1, 10 and 100 plans; the better of rule and 1 and 100 plans; over test groups."""
    ids, rule = record["ids"], {name: shares[0] for name, shares in best_rule["ids"].items()}
    by_group: dict[str, list[float]] = {}
    for name, share in record["test_settings"].items():
        by_group.setdefault(group_of(name.split()[0], {}), []).append(share)
    columns = [
        [*record.get("bold", rule).values()],
        *([shares[min(index, len(shares) - 1)] for shares in ids.values()] for index in range(len(COUNTS))),
        *([max(shares[min(index, len(shares) - 1)], rule[name]) for name, shares in ids.items()] for index in (0, 2)),
        [float(np.mean(shares)) for shares in by_group.values()],
    ]
    return [float(np.mean(column)) for column in columns]


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table of mean shares in percent: means of the seeds, with the least and the most of them."""
    cells: dict[tuple[str, str, str], list[list[float]]] = {}
    for record in records:
        cell = (record["stage"], record.get("variant", ""), str(record.get("programs", "")))
        cells.setdefault(cell, []).append(means(record, records[0]))
    rows = [[*cell, *map(_spread, zip(*seeds, strict=True))] for cell, seeds in cells.items()]
    heads = ["trained by", "sees", "programs", "bold", "1 plan", "10 plans", "100 plans"]
    return markdown_table([*heads, "rule or 1 plan", "rule or 100 plans", "groups, 1 plan"], rows)


def _spread(values: Sequence[float]) -> str:
    ends = f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{ends}"


def panel(records: Sequence[Record]) -> Panel:
    """Return the curve over the number of training programs: mean shares of one plan on the test ids."""
    mine = [r for r in records[1:] if r["stage"] == STAGES[1] and r["variant"] == next(iter(VARIANTS))]
    by_size = [[means(r, records[0]) for r in mine if r["programs"] == size] for size in SIZES]
    seeds = min(map(len, by_size))
    columns = {"policy alone": 0, "cautious policy": 1, "best of rule and policy": 4}
    searches = {
        label: np.array([[figures[column] for figures in cell[:seeds]] for cell in by_size]).T
        for label, column in columns.items()
    }
    levels = {"best rule": means(records[0], records[0])[1]}
    return Panel("One plan on unseen families", "training programs", np.array(SIZES, dtype=float), searches, levels)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--plans", action="store_true", help="solve the settings exactly instead of training")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--saved", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if options.plans:
        ledger = Ledger(PLANS, KEY)
        for record in track(ledger.missing([record for split in Split for record in settings(split)]), "solving"):
            ledger.add(solved(record))
        return
    ledger = Ledger(RESULTS, ("stage", "variant", "programs", "seed"))
    if not options.saved:
        with one_thread():
            if ledger.missing([{"stage": STAGES[0]}]):
                ledger.add(rules())
            for run in track(runs(options.seeds), "training"):
                if ledger.missing(stages(run)):
                    for record in measure(run):
                        ledger.add(record)
    wanted = [{"stage": STAGES[0]}, *(record for run in runs(options.seeds) for record in stages(run))]
    records = ledger.of(wanted)
    publish({"zero-shot policies": table(records)}, options.write)
    for document in options.write:
        write_atomically(document.parent / "pictures" / "policy.png", draw([panel(records)]))


if __name__ == "__main__":
    main()
