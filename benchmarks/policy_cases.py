"""Programs of the zero-shot benchmark: what policies imitate, and what they are tested on."""

from __future__ import annotations

import hashlib
import json
import time
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import gymnasium as gym
import numpy as np

import memplace_env  # noqa: F401 (registers the ids)
from benchmarks.ledger import Ledger, Record
from memplace_agents.exact import Exact
from memplace_env._lib.units import PS
from memplace_env.envs.many.draws import SplitDraws
from memplace_env.envs.many.many_steps import drawn_steps
from memplace_env.envs.many.setting import FIELDS, Setting
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.splits import Split, split_suites
from memplace_env.envs.steps import StepsProblem
from memplace_env.leaderboard.suite import best_known
from memplace_env.program.program import Ints

PLANS = Path(__file__).parent / "results" / "policy-plans.jsonl"
KEY: Final = ("split", *FIELDS)
"""Fields that identify a solved setting."""
SECONDS: Final = 6.0
"""Time limit of an exact plan to imitate; nearly all are proven sooner."""
LEAST_GAIN, LEAST_TEST_GAIN = 0.001, 0.01
"""Least proven gain over native, as a fraction, of settings to train on and to test on."""
MOST_ENTRIES: Final = 1300
"""Most decisions of a setting, as training time grows with them."""


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
def validation_settings() -> list[Case]:
    """Return the settings of `MemPlaceSteps-Validation-v0` that count."""
    return [case_of(record) for record in plans(Split.VALIDATION, LEAST_TEST_GAIN)]


@cache
def test_settings() -> list[Case]:
    """Return the settings of `MemPlaceSteps-Test-v0` that count."""
    return [case_of(record) for record in plans(Split.TEST, LEAST_TEST_GAIN)]


def training(count: int) -> tuple[list[str], list[Case], list[Ints]]:
    """Return the first `count` training programs in the order of the SHA-256 of names, settings, exact actions."""
    records = plans(Split.TRAIN, LEAST_GAIN)
    names = sorted({record["program"] for record in records}, key=lambda one: hashlib.sha256(one.encode()).hexdigest())
    names = names[:count]
    chosen = [record for record in records if record["program"] in names]
    return names, _cases(tuple(json.dumps(record) for record in chosen)), [_actions(record) for record in chosen]


@cache
def _cases(records: tuple[str, ...]) -> list[Case]:
    return [_case(record) for record in records]


@cache
def _case(record: str) -> Case:
    return case_of(json.loads(record))


def _actions(record: Record) -> Ints:
    return np.array(list(map(int, record["actions"])), dtype=np.int64)
