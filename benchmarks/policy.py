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

import hashlib
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np
from rich.progress import track

import memplace_env  # noqa: F401 (registers the ids)
from benchmarks.learning.curves import Panel, draw
from benchmarks.ledger import Ledger, Record
from benchmarks.tables import benchmark_parser, markdown_table, publish
from memplace_agents.exact import Exact
from memplace_agents.learning import safe_files
from memplace_agents.learning.torch_threads import one_thread
from memplace_agents.policy import PolicyRun, PolicySettings, ProgramEpisodes
from memplace_agents.policy.policy_run import played_ps
from memplace_env._lib.files import write_atomically
from memplace_env._lib.units import PS
from memplace_env.envs.many.draws import SplitDraws
from memplace_env.envs.many.many_steps import drawn_steps
from memplace_env.envs.many.setting import FIELDS, Setting
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import Split, group_of, split_suites
from memplace_env.envs.steps import StepsProblem
from memplace_env.leaderboard.suite import best_known

ROOT = Path(__file__).parents[1]
PLANS = Path(__file__).parent / "results" / "policy-plans.jsonl"
RESULTS = Path(__file__).parent / "results" / "policy.jsonl"
CHECKPOINTS = ROOT / "out" / "policy"
CHECKPOINT_KIND: Final = "zero-shot-run/1"

SECONDS: Final = 6.0
"""Time limit of an exact plan to imitate; nearly all are proven sooner."""
LEAST_GAIN, LEAST_TEST_GAIN = 0.001, 0.01
"""Least proven gain over native, as a fraction, of settings to train on and to test on."""
MOST_ENTRIES: Final = 1300
"""Most decisions of a setting, as training time grows with them."""
COUNTS: Final = (1, 10, 100)
"""Numbers of plans."""
SIZES: Final = (4, 16, 45)
"""Numbers of training programs; the last is all."""
VARIANTS: Final = {"rules, graph": (True, True), "rules": (True, False), "graph": (False, True)}
"""Flags of `ProgramEpisodes` by name: whether the policy sees the rules' plans, and its neighbours in the graph."""
STAGES: Final = ("best rule", "imitation", "reward")
"""Stages of tests: the best rule, and the policy after each part of its training."""
KEY: Final = ("split", *FIELDS)
"""Fields that identify a solved setting."""
EVERY: Final = 10
"""Rounds between checkpoints."""


class Case(NamedTuple):
    """A program to train or test on.

    Attributes:
        name: id, or the setting's parts.
        problem: its steps.
        native_ps, bound_ps: latency of native's plan, and the least that is not refuted.
    """

    name: str
    problem: StepsProblem
    native_ps: int
    bound_ps: float

    def share(self, latency_ps: float) -> float:
        """Return the share of the proven gain over native, in percent, at least -100."""
        gain = self.native_ps / self.bound_ps - 1
        return max(100 * (self.native_ps / latency_ps - 1) / gain, -100.0)


def settings(split: Split) -> list[Record]:
    """Return the settings of a split of `MemPlaceSteps` as records."""
    return [
        {"split": split.value, **{key: value for key, value in setting.options.items() if value}}
        for setting in SplitDraws(Formulation.STEPS, split).settings
    ]


def setting_of(record: Record) -> Setting:
    """Return the setting of a record."""
    return Setting.of({field: record[field] for field in FIELDS if field in record})


def solved(record: Record) -> Record:
    """Return a setting's record with native's latency, the exact agent's plan as actions, and its bound."""
    problem, began = drawn_steps(setting_of(record), "density").problem, time.process_time()
    solution = Exact(mip_gap=1e-3, tie_break="none").solve(OneShotEnv(problem.task), time_limit=SECONDS, budget=20_000)
    assert solution.plan is not None
    assert solution.report is not None
    assert solution.bound_s is not None
    return {
        **record,
        "native_ps": problem.one_shot.native_report.latency_ps,
        "plan_ps": solution.report.latency_ps,
        "bound_ps": round(solution.bound_s / PS),
        "actions": "".join(map(str, problem.actions_of(solution.plan))),
        "cpu_s": round(time.process_time() - began, 2),
    }


def plans(split: Split, least_gain: float) -> list[Record]:
    """Return the solved settings of a split that count: neither too large, nor with next to nothing to gain."""
    return [
        record
        for record in Ledger(PLANS, KEY).of(settings(split))
        if record["native_ps"] >= (1 + least_gain) * record["bound_ps"] and len(record["actions"]) <= MOST_ENTRIES
    ]


def case_of(record: Record) -> Case:
    """Return the program of a solved setting."""
    setting = setting_of(record)
    name = " ".join(map(str, setting.info.values()))
    problem = drawn_steps(setting, "density").problem
    return Case(name, problem, record["native_ps"], record["bound_ps"])


@cache
def test_ids() -> list[Case]:
    """Return the registered one-shot ids of the test split."""
    cases = []
    for env_id in split_suites()["one-shot-test"]:
        env: Any = gym.make(env_id).unwrapped
        native_ps = env.problem.native_report.latency_ps
        cases.append(Case(env_id, StepsProblem(env.task), native_ps, best_known()[env_id].bound_ps))
    return cases


@cache
def test_settings() -> list[Case]:
    """Return the settings of `MemPlaceSteps-Test-v0` that count."""
    return [case_of(record) for record in plans(Split.TEST, LEAST_TEST_GAIN)]


@cache
def episodes_of(case: Case, variant: str) -> ProgramEpisodes:
    """Return the episodes of a program, made once for all runs of a variant."""
    return ProgramEpisodes(case.problem, *VARIANTS[variant])


def runs(seeds: int) -> list[Record]:
    """Return the runs: all programs first, then fewer programs, then less to see."""
    first = next(iter(VARIANTS))
    cells = [(first, size) for size in reversed(SIZES)] + [(other, SIZES[-1]) for other in VARIANTS if other != first]
    return [{"variant": v, "programs": n, "seed": seed} for v, n in cells for seed in range(seeds)]


def training(run: Record) -> tuple[list[str], list[Case], list[np.ndarray]]:
    """Return names of a run's programs, the first so many in order of the SHA-256 of names; settings, exact actions."""
    records = plans(Split.TRAIN, LEAST_GAIN)
    names = sorted({record["program"] for record in records}, key=lambda one: hashlib.sha256(one.encode()).hexdigest())
    names = names[: run["programs"]]
    chosen = [record for record in records if record["program"] in names]
    return names, _cases(tuple(json.dumps(record) for record in chosen)), [_actions(record) for record in chosen]


@cache
def _cases(records: tuple[str, ...]) -> list[Case]:
    return [_case(record) for record in records]


@cache
def _case(record: str) -> Case:
    return case_of(json.loads(record))


def _actions(record: Record) -> np.ndarray:
    return np.array(list(map(int, record["actions"])), dtype=np.int64)


def measure(run: Record) -> Iterator[Record]:
    """Train, and yield a record of the tests after the imitation and after the reward."""
    names, cases, exact = training(run)
    programs = [episodes_of(case, run["variant"]) for case in cases]
    training_run = PolicyRun(PolicySettings(), programs, exact, run["seed"])
    path = CHECKPOINTS / f"{run['variant'].replace(', ', '-')}-{run['programs']}-{run['seed']}.safetensors"
    spent = 0.0
    if path.exists():
        saved = safe_files.load(path, CHECKPOINT_KIND)
        training_run.load_state_dict(saved["run"])
        spent = saved["cpu_s"]
    ends = {training_run.settings.imitation_rounds: STAGES[1]}
    ends[training_run.settings.imitation_rounds + training_run.settings.reward_rounds] = STAGES[2]
    while not training_run.done:
        began = time.process_time()
        training_run.step()
        spent += time.process_time() - began
        if training_run.round in ends:
            stage = {**run, "stage": ends[training_run.round], "settings": len(cases), "trained_on": names}
            yield {**stage, "cpu_s": round(spent, 1), **tested(training_run, run["variant"]), **provenance()}
        if training_run.round % EVERY == 0:
            path.parent.mkdir(parents=True, exist_ok=True)
            safe_files.save(path, CHECKPOINT_KIND, {"run": training_run.state_dict(), "cpu_s": spent})


def tested(run: PolicyRun, variant: str) -> Record:
    """Return shares in percent on the test: by id for each number of plans, and by setting with one plan.

    `best` are those of the better of the policy's plan and the best rule's.
    """
    policy, began, decisions = run.policy, time.process_time(), 0
    by_id: dict[str, list[float]] = {}
    for case in test_ids():
        episodes = episodes_of(case, variant)
        least = [int(played_ps(policy, episodes, 1, None)[0])]
        sampled = played_ps(policy, episodes, COUNTS[-1] - 1, np.random.default_rng(0))
        least += [min(least[0], int(sampled[: count - 1].min())) for count in COUNTS[1:]]
        by_id[case.name] = [round(case.share(value), 2) for value in (*least, min(least[0], episodes.rule_ps))]
    began = time.process_time()
    by_setting = {}
    for case in test_settings():
        episodes = episodes_of(case, variant)
        decisions += episodes.length
        by_setting[case.name] = round(case.share(int(played_ps(policy, episodes, 1, None)[0])), 2)
    microseconds = 1e6 * (time.process_time() - began) / max(decisions, 1)
    return {"ids": by_id, "test_settings": by_setting, "us_per_decision": round(microseconds)}


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


def mean_of(record: Record, column: int) -> float:
    """Return the mean share over the ids; column 0, 1, 2 for 1, 10, 100 plans, 3 for the better of policy and rule."""
    return float(np.mean([shares[min(column, len(shares) - 1)] for shares in record["ids"].values()]))


def mean_over_groups(record: Record) -> float:
    """Return the mean share over the groups of the test settings, each group by its mean."""
    by_group: dict[str, list[float]] = {}
    for name, share in record["test_settings"].items():
        by_group.setdefault(group_of(name.split()[0], {}), []).append(share)
    return float(np.mean([np.mean(shares) for shares in by_group.values()]))


def table(records: Sequence[Record]) -> str:
    """Return a Markdown table of shares in percent, means of the seeds with the least and the most of them."""
    rows = []
    keys = dict.fromkeys((r["stage"], r.get("variant", ""), r.get("programs", 0)) for r in records)
    for stage, variant, programs in sorted(keys, key=lambda key: (STAGES.index(key[0]), *key[1:])):
        wanted = (stage, variant, programs)
        mine = [r for r in records if (r["stage"], r.get("variant", ""), r.get("programs", 0)) == wanted]
        figures = [[mean_of(record, column) for record in mine] for column in range(4)]
        figures.append([mean_over_groups(record) for record in mine])
        if stage == STAGES[0]:
            figures[1:4] = [[]] * 3
        rows.append([stage, variant, str(programs or ""), *map(_spread, figures)])
    heads = ["trained by", "sees", "programs", "1 plan", "10 plans", "100 plans", "1 plan, or the best rule's"]
    return markdown_table([*heads, "test settings, 1 plan"], rows)


def _spread(values: Sequence[float]) -> str:
    ends = f" ({min(values):.0f} to {max(values):.0f})" if len(values) > 1 else ""
    return f"{np.mean(values):.0f}{ends}" if values else ""


def panel(records: Sequence[Record]) -> Panel:
    """Return the curve over the number of training programs: shares with one plan on the test ids."""
    first = next(iter(VARIANTS))
    searches, levels = {}, {}
    for stage in STAGES[1:]:
        rows = [r for r in records if r["stage"] == stage and r["variant"] == first]
        columns = [[mean_of(r, 0) for r in rows if r["programs"] == size] for size in SIZES]
        fewest = min(map(len, columns))
        if fewest:
            searches[stage] = np.array([column[:fewest] for column in columns]).T
    for record in records:
        if record["stage"] == STAGES[0]:
            levels["best rule"] = mean_of(record, 0)
    return Panel("One plan on unseen families", "training programs", np.array(SIZES, dtype=float), searches, levels)


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument("--plans", action="store_true", help="solve the settings exactly instead of training")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--saved", action="store_true", help="measure nothing")
    options = parser.parse_args()
    if options.plans:
        ledger = Ledger(PLANS, KEY)
        for record in track(ledger.missing([*settings(Split.TRAIN), *settings(Split.TEST)]), "solving"):
            ledger.add(solved(record))
        return
    ledger = Ledger(RESULTS, ("stage", "variant", "programs", "seed"))
    if not options.saved:
        with one_thread():
            if ledger.missing([{"stage": STAGES[0]}]):
                ledger.add(rules())
            for run in track(runs(options.seeds), "training"):
                if ledger.missing([{**run, "stage": STAGES[-1]}]):
                    for record in measure(run):
                        ledger.add(record)
    wanted = [{"stage": STAGES[0]}, *({**run, "stage": stage} for run in runs(options.seeds) for stage in STAGES[1:])]
    records = ledger.of(wanted)
    publish({"zero-shot policies": table(records)}, options.write)
    for document in options.write:
        write_atomically(document.parent / "pictures" / "policy.png", draw([panel(records)]))


if __name__ == "__main__":
    main()
