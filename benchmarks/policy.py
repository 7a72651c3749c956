"""Zero-shot policies: trained on programs of one kind, tested on unseen families; docs/policy.md.

    python -m benchmarks.policy --plans                   # solve the programs exactly, what is missing
    python -m benchmarks.policy [--seeds 3]               # train and test, what is missing
    python -m benchmarks.policy --saved --write docs/policy.md    # table and picture of what is recorded

A policy decides the entries of `MemPlaceSteps` on settings of its `Train` split. It is tested on the one-shot ids of
the test split and on the settings of `MemPlaceSteps-Test-v0`: no group of families is in both. Training is resumed from
its checkpoint in out/policy to the same bits. Shares are of the proven gain over native; those below -100 % count as
-100 %. One plan is the likeliest one, more are the best of it and samples. Local search has as many plans, which begin
with the rules'.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
from rich.progress import track

import memplace_env  # noqa: F401 (registers the ids)
from benchmarks.experiments.learning_curves import Panel, draw
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
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish
from memplace_agents.heuristic import LocalSearch
from memplace_agents.learning import safe_files
from memplace_agents.learning.flat_policy import FlatPolicy
from memplace_agents.learning.torch_threads import one_thread
from memplace_agents.policy import PolicyRun, PolicySettings, ProgramEpisodes
from memplace_agents.policy.policy_run import played_ps
from memplace_env._lib.files import write_atomically
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.splits import Split, group_of
from memplace_env.placement.simulator import evaluate_plan

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
ROUNDS: Final = (40, 160, 640)
"""Rounds of imitation after which the policy of all programs is tested; all others have the second number."""
REWARD_ROUNDS: Final = 100
"""Rounds of reward after imitation, where there are any."""
VARIANTS: Final = {"rules, graph": (True, True), "rules": (True, False)}
"""Flags of `ProgramEpisodes` by name: whether the policy sees the rules' plans, and its neighbours in the graph."""
STAGES: Final = ("best rule", "local search", "imitation", "reward")
"""Stages of tests: no policy, and the policy after each part of its training."""
TENFOLD: Final = "local search, ten times the plans"
"""The search with so many plans that it takes half of the processor time of a policy's plans."""
COLUMNS: Final = (
    "1 plan", "10 plans", "100 plans", "cautious", "rule or 1 plan", "rule or 100 plans", "groups, 1 plan",
    "seen, 1 plan", "seen, rule",
)  # fmt: skip
"""Mean shares of a record, see docs/policy.md."""
SHOWN: Final = 6
"""Number of these columns in the document."""
EVERY: Final = 10
"""Rounds between checkpoints."""


@cache
def episodes_of(case: Case, variant: str) -> ProgramEpisodes:
    """Return the episodes of a program, made once for all runs of a variant."""
    return ProgramEpisodes(case.problem, *VARIANTS[variant])


def runs(seeds: int) -> list[Record]:
    """Return what is tested: more and more training first, then fewer programs, then reward, then less to see."""
    (first, *others), (*_, imitation, reward) = VARIANTS, STAGES
    (*fewer, most), (_, middle, _) = SIZES, ROUNDS
    cells = [(imitation, first, most, rounds) for rounds in ROUNDS]
    cells += [(imitation, first, size, middle) for size in reversed(fewer)] + [(reward, first, most, middle)]
    cells += [(imitation, other, most, middle) for other in others]
    fields = ("stage", "variant", "programs", "rounds", "seed")
    searches = [{"stage": stage, "seed": seed} for stage in (STAGES[1], TENFOLD) for seed in range(seeds)]
    return [*searches, *(dict(zip(fields, (*cell, seed), strict=True)) for cell in cells for seed in range(seeds))]


def measure(run: Record) -> Record:
    """Return the record of a run; a policy is trained to the end of its stage, from the last checkpoint that fits."""
    if run["stage"] in (STAGES[1], TENFOLD):
        return run | searched(run["seed"], 10 if run["stage"] == TENFOLD else 1)
    names, cases, exact = training(run["programs"])
    programs = [episodes_of(case, run["variant"]) for case in cases]
    settings = PolicySettings(imitation_rounds=run["rounds"], reward_rounds=REWARD_ROUNDS)
    trained, spent = PolicyRun(settings, programs, exact, run["seed"]), 0.0
    reward = run["stage"] == STAGES[-1]
    end = settings.imitation_rounds + reward * settings.reward_rounds
    stem = f"{run['variant'].replace(', ', '-')}-{run['programs']}-{run['seed']}"
    for saved in (safe_files.load(path, CHECKPOINT_KIND) for path in CHECKPOINTS.glob(f"{stem}-*.safetensors")):
        if trained.round < saved["run"]["round"] <= settings.imitation_rounds:
            trained.load_state_dict(saved["run"])
            spent = saved["cpu_s"]
    while trained.round < end:
        began = time.process_time()
        trained.step()
        spent += time.process_time() - began
        if not reward and (trained.round % EVERY == 0 or trained.round == end):
            path = CHECKPOINTS / f"{stem}-{end}.safetensors"
            path.parent.mkdir(parents=True, exist_ok=True)
            safe_files.save(path, CHECKPOINT_KIND, {"run": trained.state_dict(), "cpu_s": spent})
    seen = [
        case.share(int(played_ps(trained.policy, one, 1, None)[0])) for case, one in zip(cases, programs, strict=True)
    ]
    by_rule = [case.share(one.rule_ps) for case, one in zip(cases, programs, strict=True)]
    about = {**run, "settings": len(cases), "trained_on": names, "cpu_s": round(spent, 1)}
    about |= {"seen": round(float(np.mean(seen)), 2), "seen_by_rule": round(float(np.mean(by_rule)), 2)}
    return {**about, **tested(trained.policy, run["variant"])}


def tested(policy: FlatPolicy, variant: str) -> Record:
    """Return shares in percent on the test: by id for each number of plans, and by setting with one plan.

    `cautious` are those of one plan by id with the caution that is best on the validation settings; `seconds` is what
    all plans of an id take, with the features, in the mean.
    """

    def shares(cases: Sequence[Case], caution: float = 0.0) -> dict[str, float]:
        played = {case: played_ps(policy, episodes_of(case, variant), 1, None, caution)[0] for case in cases}
        return {case.name: round(case.share(int(latency)), 2) for case, latency in played.items()}

    validation = [round(float(np.mean([*shares(validation_settings(), own).values()])), 2) for own in CAUTIONS]
    caution = CAUTIONS[int(np.argmax(validation))]
    by_id, seconds = {}, []
    for case in test_ids():
        began = time.process_time()
        program = ProgramEpisodes(case.problem, *VARIANTS[variant])
        (likeliest,) = played_ps(policy, program, 1, None)
        sampled = played_ps(policy, program, COUNTS[-1] - 1, np.random.default_rng(0))
        seconds.append(time.process_time() - began)
        latencies = np.minimum.accumulate([likeliest, *sampled])[np.array(COUNTS) - 1]
        by_id[case.name] = [round(case.share(int(latency)), 2) for latency in latencies]
    decisions = sum(episodes_of(case, variant).length for case in test_settings())
    began, by_setting = time.process_time(), shares(test_settings())
    a_plan_each = time.process_time() - began
    return {
        "ids": by_id,
        "seconds": _mean(seconds),
        "test_settings": by_setting,
        "caution": caution,
        "validation": validation,
        "cautious": shares(test_ids(), caution),
        "us_per_decision": round(1e6 * a_plan_each / decisions),
    }


def searched(seed: int, times: int) -> Record:
    """Return shares of local search on the test ids, with so many times each number of plans, as `tested` does."""
    by_id, seconds = {}, []
    for case in test_ids():
        env, latencies = OneShotEnv(case.problem.task), []
        for count in COUNTS:
            began = time.process_time()
            plan = LocalSearch().solve(env, budget=times * count, seed=seed).plan
            seconds.append(time.process_time() - began)
            assert plan is not None
            latencies.append(evaluate_plan(case.problem.task, plan).latency_ps)
        by_id[case.name] = [round(case.share(latency), 2) for latency in latencies]
    return {"ids": by_id, "seconds": _mean(seconds[len(COUNTS) - 1 :: len(COUNTS)])}


def rules() -> Record:
    """Return the record of the best rule, with shares as `tested` gives them."""

    def shares(cases: Sequence[Case]) -> dict[str, float]:
        return {case.name: round(case.share(episodes_of(case, "rules").rule_ps), 2) for case in cases}

    by_id = {name: [share] for name, share in shares(test_ids()).items()}
    return {"stage": "best rule", "ids": by_id, "test_settings": shares(test_settings())}


def means(record: Record, best_rule: Record) -> list[float]:
    """Return the mean shares that `COLUMNS` names."""
    ids, rule = record["ids"], {name: shares[0] for name, shares in best_rule["ids"].items()}
    by_group: dict[str, list[float]] = {}
    for name, share in record.get("test_settings", {}).items():
        by_group.setdefault(group_of(name.split()[0], {}), []).append(share)
    plain = [
        {name: shares[min(index, len(shares) - 1)] for name, shares in ids.items()} for index in range(len(COUNTS))
    ]
    beside = [{name: max(share, rule[name]) for name, share in shares.items()} for shares in (plain[0], plain[-1])]
    cautious = record.get("cautious", {"": np.nan})
    columns = [list(shares.values()) for shares in (*plain, cautious, *beside)]
    columns.append([float(np.mean(shares)) for shares in by_group.values()] or [np.nan])
    columns.append([record.get("seen", np.nan)])
    columns.append([record.get("seen_by_rule", np.nan)])
    return [float(np.mean(column)) for column in columns]


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table of mean shares in percent: means of the seeds, with the least and the most of them."""
    cells: dict[tuple[str, ...], list[list[float]]] = {}
    for record in records:
        seen = f" ({record['variant']})" if "variant" in record else ""
        cell = (record["stage"] + seen, str(record.get("programs", "")), str(record.get("rounds", "")))
        cells.setdefault(cell, []).append([*means(record, records[0])[:SHOWN], record.get("seconds", np.nan)])
    rows = []
    for about, seeds in cells.items():
        *columns, seconds = zip(*seeds, strict=True)
        rows.append([*about, *map(_spread, columns), "" if np.isnan(seconds[0]) else f"{np.mean(seconds):.2f}"])
    return markdown_table(["trained by (sees)", "programs", "rounds", *COLUMNS[:SHOWN], "s"], rows)


def data_file(records: Sequence[Record]) -> DataFile:
    """Return all mean shares of every run."""
    fields = (
        "stage",
        "variant",
        "programs",
        "rounds",
        "seed",
        "settings",
        "cpu_s",
        "seconds",
        "us_per_decision",
        "caution",
    )
    rows = [
        [*(record.get(field, "") for field in fields), *(round(mean, 1) for mean in means(record, records[0]))]
        for record in records
    ]
    return DataFile([*fields, *COLUMNS], rows)


def _mean(seconds: Sequence[float]) -> float:
    return round(float(np.mean(seconds)), 3)


def _spread(values: Sequence[float]) -> str:
    if np.isnan(values).any():
        return ""
    ends = f" ({min(values):.0f}–{max(values):.0f})" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{ends}"


def panels(records: Sequence[Record]) -> list[Panel]:
    """Return the curves over the rounds of training and over the number of programs: means on the test ids."""
    mine = [r for r in records if r["stage"] == STAGES[2] and r["variant"] == next(iter(VARIANTS))]
    longer = [record for record in mine if record["programs"] == SIZES[-1]]
    more = [record for record in mine if record["rounds"] == ROUNDS[1]]
    titles = (f"{SIZES[-1]} programs", f"{ROUNDS[1]} rounds")
    return [
        _panel(title, field, part, records)
        for title, field, part in zip(titles, ("rounds", "programs"), (longer, more), strict=True)
    ]


def _panel(title: str, field: str, part: Sequence[Record], records: Sequence[Record]) -> Panel:
    grid = sorted({record[field] for record in part})
    figures = [[means(record, records[0]) for record in part if record[field] == value] for value in grid]
    labels = ("1 plan", "rule or 1 plan", "rule or 100 plans")
    curves = {label: np.array(figures)[:, :, COLUMNS.index(label)].T for label in labels}
    levels = {"best rule": means(records[0], records[0])[0]}
    for stage, label in ((STAGES[1], "local search, 100 plans"), (TENFOLD, "local search, 1,000 plans")):
        found = [means(record, records[0])[2] for record in records if record["stage"] == stage]
        levels[label] = float(np.mean(found))
    return Panel(title, f"{field} of training", np.array(grid, dtype=float), curves, levels, lowest=0.0)


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
    ledger = Ledger(RESULTS, ("stage", "variant", "programs", "rounds", "seed"))
    if not options.saved:
        with one_thread():
            if ledger.missing([{"stage": STAGES[0]}]):
                ledger.add(rules())
            for run in track(runs(options.seeds), "training"):
                if ledger.missing([run]):
                    ledger.add(measure(run))
    wanted = [{"stage": STAGES[0]}, *runs(options.seeds)]
    records = ledger.of(wanted)
    publish({"zero-shot policies": table(records)}, options.write, {"policy.csv": data_file(records)})
    if len(records) == len(wanted):
        for document in options.write:
            write_atomically(document.parent / "pictures" / "policy.png", draw(panels(records)))


if __name__ == "__main__":
    main()
