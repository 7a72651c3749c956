"""Whether executing plans proves anything: corrupted ones must give wrong outputs, valid ones may not.

`python -m benchmarks.mutants` measures what is missing in `benchmarks/results/mutants.jsonl` and prints the counts,
`--write docs/execution.md docs/reliability.md` puts them there, or their sums.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.ledger import Ledger, Record
from benchmarks.small_models import SMALL_MODELS
from benchmarks.tables import markdown, write_between_markers
from memplace_env.compiler import place_mapping
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.execution import Copies, Executor
from memplace_env.plan import MemoryPlan, violations
from memplace_env.resolve import resolve_task
from memplace_env.workload.program import Ints

RESULTS = Path(__file__).parent / "results" / "mutants.jsonl"
SUBJECTS = (
    ("MobileNetV2", "nnp-i", "one-shot"),
    ("SqueezeNet", "ethos-u65", "one-shot"),
    ("MobileNetV3", "ethos-u65", "game"),
    ("ELECTRA-small", "intel-npu-4000", "game"),
    ("layers in float16", "nnp-i", "one-shot"),
    ("convolutions in int8", "ethos-u65", "game"),
)
"""Programs of the zoo or of `SMALL_MODELS`, the chip, and what makes the plans: random maps, compiled, or random games.
The two small ones have types whose rounding might hide faults."""

KINDS = ("moved", "ended early", "lasting longer")
HEADS = ("", "program, chip, plans", "plans", "one inference", "two", "with earliest copies", "with random copies",
         "anything")  # fmt: skip
RULES = {"overlap", "use", "result", "prefetch", "write-back"}
"""Of the validator, about overlap and lifetime."""

MUTANTS, VALID, BATCH = 1000, 1000, 25
COUNTS = ("plans", "first", "second", "earliest", "outputs", "results")
TRIES = 200


@cache
def executor_of(program: str, chip: str) -> Executor:
    """The program on the chip, prepared once per process."""
    if program not in SMALL_MODELS:
        return Executor(resolve_task(program, chip))
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        SMALL_MODELS[program](path)
        return Executor(resolve_task(path, chip, dtype="float16" if "float16" in program else None))


def random_plan(executor: Executor, formulation: str, rng: np.random.Generator) -> MemoryPlan:
    """A valid plan: a random map, compiled, or the end of a random game."""
    task = executor.task
    if formulation == "game":
        problem = MallocGameProblem(task)
        states = problem.new_states(1)
        problem.finish_randomly(states, int(rng.integers(2**31)))
        return problem.plan(states[0])
    mapping = rng.integers(0, task.accelerator.num_levels, task.program.num_tensors)
    return place_mapping(task, mapping).plan


def corrupted(executor: Executor, plan: MemoryPlan, kind: str, rng: np.random.Generator) -> MemoryPlan | None:
    """The plan with one number of one block changed, so that the validator refuses it; None if none was found."""
    task = executor.task
    for _ in range(TRIES if len(plan.allocations) else 0):
        blocks = plan.allocations.copy()
        row = int(rng.integers(len(blocks)))
        others = neighbours(task.program.tensor_bytes, blocks, row, kind)
        tensor, _, _, start, end = blocks[row].tolist()
        if kind == "ended early" and end > start:
            blocks[row, 4] = rng.integers(start, end)
        elif kind != "ended early" and len(others):
            other = int(rng.choice(others))
            if kind == "moved":
                blocks[row, 2] = blocks[other, 2]
            else:
                blocks[row, 4] = rng.integers(blocks[other, 3], max(blocks[other, 3] + 1, blocks[other, 4]))
        mutant = replace(plan, allocations=blocks)
        broken = {violation.rule for violation in violations(task, mutant)}
        capacity = task.accelerator.levels[blocks[row, 1]].capacity_bytes
        if broken & RULES and blocks[row, 2] + task.program.tensor_bytes[tensor] <= capacity:
            return mutant
    return None


def neighbours(sizes: Ints, blocks: Ints, row: int, kind: str) -> Ints:
    """Rows of other tensors' blocks that live at the same time ("moved"), or later in the same bytes."""
    tensor, level, offset, start, end = blocks.T
    mine = (level == level[row]) & (tensor != tensor[row])
    if kind == "moved":
        return np.flatnonzero(mine & (start <= end[row]) & (start[row] <= end))
    top = offset + sizes[tensor]
    return np.flatnonzero(mine & (start > end[row]) & (offset < top[row]) & (top > offset[row]))


def measured(setting: Record) -> Record:
    """A batch of plans, executed: how many there were, and how many gave wrong results and wrong outputs."""
    rng = np.random.default_rng([KINDS.index(setting["kind"]) if setting["kind"] in KINDS else 9, setting["batch"]])
    executor = executor_of(setting["program"], setting["chip"])
    counts = dict.fromkeys(COUNTS, 0)
    while counts["plans"] < BATCH:
        plan = random_plan(executor, setting["formulation"], rng)
        if setting["kind"] == "valid":
            found = judged_valid(executor, plan, counts["plans"])
        else:
            mutant = corrupted(executor, plan, setting["kind"], rng)
            if mutant is None:
                continue
            found = judged(executor, mutant)
        counts["plans"] += 1
        for key, wrong in found.items():
            counts[key] += wrong
    return {**setting, **counts}


def judged(executor: Executor, plan: MemoryPlan) -> dict[str, bool]:
    """Whether outputs are wrong with the latest copies, after one inference and after two; then with earlier ones."""
    found = dict.fromkeys(COUNTS[1:], False)
    for moment in (Copies.LATEST, Copies.EARLIEST, Copies.RANDOM) if len(plan.transfers) else (Copies.LATEST,):
        run = executor.run(plan, inferences=2, copies=moment, even_if_invalid=True)
        wrong = bool(run.wrong_outputs)
        if moment is Copies.LATEST:
            found["first"] = 0 in run.wrong_outputs.values()
            found["second"] = wrong
        if moment is not Copies.RANDOM:
            found["earliest"] |= wrong
        found["outputs"] |= wrong
        found["results"] |= not run.right
        if wrong:
            found |= dict.fromkeys(COUNTS[COUNTS.index("earliest") :], True)
            break
    return found


def judged_valid(executor: Executor, plan: MemoryPlan, number: int) -> dict[str, bool]:
    """Whether outputs, or any operand, result or copy, are wrong; each moment of copies in turn."""
    run = executor.run(plan, inferences=2, copies=list(Copies)[number % len(Copies)])
    wrong = bool(run.wrong_outputs)
    return dict.fromkeys(COUNTS[1:-1], wrong) | {"results": not run.right}


def settings() -> list[Record]:
    """All batches: mutants in turn by subject and kind, then as many valid plans."""
    subjects = [dict(zip(("program", "chip", "formulation"), subject, strict=True)) for subject in SUBJECTS]
    mutants = [
        {**subjects[batch % len(subjects)], "kind": KINDS[batch // len(subjects) % len(KINDS)], "batch": batch}
        for batch in range(MUTANTS // BATCH)
    ]
    valid = [{**subjects[batch % len(subjects)], "kind": "valid", "batch": batch} for batch in range(VALID // BATCH)]
    return mutants + valid


def table(records: list[Record]) -> str:
    """Counts by subject and kind."""
    rows: list[list[str]] = []
    for kind in (*KINDS, "valid"):
        for subject in SUBJECTS:
            mine = [r for r in records if r["kind"] == kind and (r["program"], r["chip"], r["formulation"]) == subject]
            if mine:
                rows.append([kind, f"{subject[0]}, {subject[1]}, {subject[2]}", *sums(mine)])
    return markdown(HEADS, rows + totals(records))


def totals(records: list[Record]) -> list[list[str]]:
    """Counts of all that were corrupted, and of all that were not."""
    mutants = [record for record in records if record["kind"] != "valid"]
    valid = [record for record in records if record["kind"] == "valid"]
    return [["**all corrupted**", "", *sums(mutants)], ["**all valid**", "", *sums(valid)]]


def sums(records: list[Record]) -> list[str]:
    """The counts of several batches."""
    return [f"{sum(record[column] for record in records):,}" for column in COUNTS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, nargs="+", default=[], help="documents with markers for table or sums")
    arguments = parser.parse_args()
    ledger = Ledger(RESULTS, ("program", "chip", "formulation", "kind", "batch"))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        records = ledger.complete(settings(), measured, pool)
    text = table(records)
    print(text)
    for document in arguments.write:
        whole = "<!-- mutants:begin -->" in document.read_text(encoding="utf-8")
        name, content = ("mutants", text) if whole else ("mutants-sums", markdown(HEADS, totals(records)))
        write_between_markers(document, name, content)


if __name__ == "__main__":
    main()
