"""Results in place in MemPlaceSteps with a condition broken once: an episode then grants, or shows, something else."""

from __future__ import annotations

import types

import numpy as np
import pytest

from memplace_env.envs.one_shot.problem import OneShotProblem
from memplace_env.envs.steps import StepsProblem, step_kernels, step_tables
from memplace_env.envs.steps.step_kernels import CURSOR, MASK
from memplace_env.placement.task import Task
from tests.agents.test_order_guards import said, task_of
from tests.agents.tiny_tasks import task_with_roles
from tests.mutation import Case, decides, noted, plain_kernels, unnoticed
from tests.references.reference_steps import Steps


def tasks() -> list[Task]:
    """Random tasks in which there is something to decide."""
    settings = [{"ops": 6, "share": share, "capacity": 60} for share in (0.2, 0.5, 0.8)]
    settings += [{"ops": 5, "levels": 3}, {"ops": 5, "weights": "streamed"}, {"ops": 6, "share": 0.8, "capacity": 120}]
    settings += [{"ops": 4, "share": 0.5, "capacity": capacity} for capacity in range(41, 81, 5)]
    made = [task_of(seed, **setting) for seed in range(6) for setting in settings]
    roles = (task_with_roles(seed, 4, 3) for seed in range(60))
    made += [task for task in roles if task is not None and task.allowed[task.program.is_placeable, :-1].any()]
    return [task for task in made if Steps(task, "density").order]


def episode(problem: StepsProblem, seed: int) -> Case:
    """Return a case: what is granted, gained and shown from the first decision to the last."""

    def played(module: types.ModuleType) -> str:
        tables, rng = problem.tables, np.random.default_rng(seed)
        state, said = module.first_state(tables), []
        row = np.zeros(3 + tables.entry_features.shape[1] + 16 + len(tables.program_features), dtype=np.float32)
        while state[CURSOR] < len(tables.decision):
            wanted = 0 if rng.random() < 0.6 else int(rng.integers(3))
            said.append((state.tolist(), int(state[MASK]), module.step_state(tables, state, wanted)))
            module.observe_state(tables, state, row)
            said.append(row.tolist())
        return str([said, module.step_state(tables, state, 0), module.gains_alone(tables)])

    return noted(played)


def test_what_shares_its_bytes_is_noticed_when_it_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    plain_kernels(monkeypatch)
    cases: list[Case] = []
    for seed, task in enumerate(tasks()):
        problem = StepsProblem(task, ("density", "schedule")[seed % 2])
        order = np.random.default_rng(seed).permutation(len(problem.tables.decision))
        cases += [episode(problem, seed), episode(problem, seed + 1)]
        cases.append(noted(lambda module, given=(problem.tables, order): str(module.bytes_before(*given).tolist())))
    for seed in range(20):
        rng = np.random.default_rng(seed)
        ends = rng.permutation(9)[:5]
        group = np.stack([0 * ends, 0 * ends + 9, ends // 3, 3 + ends % 3, ends // 3, 3 + ends % 3], axis=1)
        given = group, rng.integers(0, 2, 6), 0, int(rng.integers(-1, 6))
        cases.append(noted(lambda module, given=given: str(module._sharing(*given))))
    pointers = "tables.pair_ptr[entry] <"
    same = (
        *(f"{of} {pointers}{more}" for of in ("paired =", "if") for more in ("= ", " tables.pair_ptr[entry + 1] + 1")),
        *(
            "if tables.capacity[1] > 0 + 1",
            "if count >= 0",
            "if count > 0 - 1",
            "moves[2, index] =",
            "low = level[user]",
            "while level <= BACKING and",  # comes down again
            "while level < BACKING + 1 and",
            "while not state[MASK] >> level:",  # nothing slower is allowed
        ),
        *(
            f"profile, fewest, fits = (profile_of(tables, state, level), _PLENTY, tables.capacity[level] >{more}"
            for more in ("=", " 0 + 1", " 0 - 1")
        ),
    )
    assert unnoticed(step_kernels, decides, cases, same=same) == []


def test_the_tables_of_pairs_are_noticed_when_they_are_broken() -> None:
    cases = []
    for task in tasks():
        given = task, OneShotProblem(task).decision_of, StepsProblem(task).tables.decision
        cases.append(noted(lambda module, given=given: str(said(module.tables_of(*given)))))
    for task in (*tasks(), *(task_of(0, capacity=capacity) for capacity in range(8, 45))):
        given = task, OneShotProblem(task).decision_of
        cases.append(noted(lambda module, given=given: str(module.entries_with_choice(*given).tolist())))
    assert unnoticed(step_tables, decides, cases, same=()) == []
