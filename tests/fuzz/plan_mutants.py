"""Execute corrupted plans and valid ones: the former must give wrong outputs, the latter must not.

`python -m tests.fuzz.plan_mutants` measures what is missing in `benchmarks/results/mutants.jsonl` and prints the
counts; `--write docs/trust.md` puts them there. Exit code 1 if the validator was wrong about a plan.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.ledger import Ledger, Record
from benchmarks.tables import DataFile, benchmark_parser, markdown_table, publish
from memplace_env.backends.ort import CopyMoment, Executor
from memplace_env.envs.malloc_game.problem import MallocGameProblem
from memplace_env.placement.compiler import place_levels
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.validation import violations
from memplace_env.program.program import Ints
from tests.fuzz import RESULTS
from tests.fuzz.small_models import SMALL_MODELS

SUBJECTS = (
    ("MobileNetV2", "nnp-i", "one-shot"),
    ("SqueezeNet", "ethos-u65", "one-shot"),
    ("MobileNetV3", "ethos-u65", "game"),
    ("ELECTRA-small", "intel-npu-4000", "game"),
    ("layers in float16", "nnp-i", "one-shot"),
    ("convolutions in int8", "ethos-u65", "game"),
    ("MobileNetV2 in slices", "ethos-u65", "one-shot"),
    ("SqueezeNet in slices", "ethos-u65", "game"),
)
"""Program of the zoo or of `SMALL_MODELS`, chip, and source of the plans: compiled random levels, or random games.
The two small models have types whose rounding might hide faults."""

IN_SLICES, SHARE = " in slices", 0.1
"""Ending of subjects that are cut into slices, and the largest share of fast memory that one may take."""

KINDS = ("moved", "ended early", "lasting longer")
HEADS = ("kind", "program, chip, plans", "plans", "one inference", "two", "with earliest copies", "with random copies",
         "anything")  # fmt: skip
RULES = {"overlap", "use", "result", "prefetch", "write-back"}
"""Rules of the validator about overlap and lifetime."""

MUTANTS, VALID, BATCH = 1000, 1000, 25
COUNTS = ("plans", "first", "second", "earliest", "outputs", "results")
TRIES = 200


@cache
def executor_of(program: str, chip: str) -> Executor:
    """Return the program's executor on the chip, prepared once per process."""
    if program not in SMALL_MODELS:
        slices = SHARE if program.endswith(IN_SLICES) else None
        return Executor(resolve_task(program.removesuffix(IN_SLICES), chip, slices=slices))
    with TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        SMALL_MODELS[program](path)
        return Executor(resolve_task(path, chip, dtype="float16" if "float16" in program else None))


def random_plan(executor: Executor, formulation: str, rng: np.random.Generator) -> MemoryPlan:
    """Return a valid plan: compiled random levels, or the end of a random game."""
    task = executor.task
    if formulation == "game":
        problem = MallocGameProblem(task)
        states = problem.new_states(1)
        problem.finish_randomly(states, int(rng.integers(2**31)))
        return problem.plan(states[0])
    levels = rng.integers(0, task.accelerator.num_levels, task.program.num_tensors)
    return place_levels(task, levels).plan


def corrupted(executor: Executor, plan: MemoryPlan, kind: str, rng: np.random.Generator) -> MemoryPlan | None:
    """Return the plan with one number of one block changed, so that the validator refuses it; None after `TRIES`."""
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
    """Return rows of other tensors' blocks that live at the same time ("moved"), or later in the same bytes."""
    tensor, level, offset, start, end = blocks.T
    mine = (level == level[row]) & (tensor != tensor[row])
    if kind == "moved":
        return np.flatnonzero(mine & (start <= end[row]) & (start[row] <= end))
    top = offset + sizes[tensor]
    return np.flatnonzero(mine & (start > end[row]) & (offset < top[row]) & (top > offset[row]))


def measured(setting: Record) -> Record:
    """Return a batch's counts: its plans, and those that gave wrong results or wrong outputs."""
    rng = np.random.default_rng([KINDS.index(setting["kind"]) if setting["kind"] in KINDS else 9, setting["batch"]])
    executor = executor_of(setting["program"], setting["chip"])
    counts = dict.fromkeys(COUNTS, 0)
    while counts["plans"] < BATCH:
        plan = random_plan(executor, setting["formulation"], rng)
        if setting["kind"] == "valid":
            wrongs = executed_valid(executor, plan, counts["plans"])
        else:
            mutant = corrupted(executor, plan, setting["kind"], rng)
            if mutant is None:
                continue
            wrongs = executed_mutant(executor, mutant)
        counts["plans"] += 1
        for key, wrong in wrongs.items():
            counts[key] += wrong
    return {**setting, **counts}


def executed_mutant(executor: Executor, plan: MemoryPlan) -> dict[str, bool]:
    """Return, by count, whether outputs are wrong: latest copies after one and two inferences, then earlier copies."""
    wrongs = dict.fromkeys(COUNTS[1:], False)
    for moment in (
        (CopyMoment.LATEST, CopyMoment.EARLIEST, CopyMoment.RANDOM) if len(plan.transfers) else (CopyMoment.LATEST,)
    ):
        run = executor.run(plan, inferences=2, copies=moment, even_if_invalid=True)
        wrong = bool(run.wrong_outputs)
        if moment is CopyMoment.LATEST:
            wrongs["first"] = 0 in run.wrong_outputs.values()
            wrongs["second"] = wrong
        if moment is not CopyMoment.RANDOM:
            wrongs["earliest"] |= wrong
        wrongs["outputs"] |= wrong
        wrongs["results"] |= not run.right
        if wrong:
            wrongs |= dict.fromkeys(COUNTS[COUNTS.index("earliest") :], True)
            break
    return wrongs


def executed_valid(executor: Executor, plan: MemoryPlan, number: int) -> dict[str, bool]:
    """Return, by count, whether outputs or any operand, result or copy are wrong; each moment of copies in turn."""
    run = executor.run(plan, inferences=2, copies=list(CopyMoment)[number % len(CopyMoment)])
    wrong = bool(run.wrong_outputs)
    return dict.fromkeys(COUNTS[1:-1], wrong) | {"results": not run.right}


def is_finding(record: Record) -> bool:
    """Return True if a valid plan of the batch gave anything wrong, or a corrupted one nothing."""
    return record["results"] != (0 if record["kind"] == "valid" else record["plans"])


def settings() -> list[Record]:
    """Return all batches: mutants in turn by subject and kind, then as many valid plans."""
    subjects = [dict(zip(("program", "chip", "formulation"), subject, strict=True)) for subject in SUBJECTS]
    mutants = [
        {**subjects[batch % len(subjects)], "kind": KINDS[batch // len(subjects) % len(KINDS)], "batch": batch}
        for batch in range(MUTANTS // BATCH)
    ]
    valid = [{**subjects[batch % len(subjects)], "kind": "valid", "batch": batch} for batch in range(VALID // BATCH)]
    return mutants + valid


def table(records: list[Record]) -> str:
    """Return a Markdown table of counts by kind, over all subjects, and of all corrupted and all valid plans."""
    kinds = {kind: [record for record in records if record["kind"] == kind] for kind in (*KINDS, "valid")}
    rows = {**kinds, "**all corrupted**": [record for record in records if record["kind"] != "valid"]}
    rows["**all valid**"] = rows.pop("valid")
    return markdown_table(["", *HEADS[2:]], [[name, *sums(own)] for name, own in rows.items()])


def subjects_file(records: list[Record]) -> DataFile:
    """Return a table of counts with a row for each kind and subject."""
    rows = []
    for kind in (*KINDS, "valid"):
        for subject in SUBJECTS:
            mine = [r for r in records if r["kind"] == kind and (r["program"], r["chip"], r["formulation"]) == subject]
            if mine:
                rows.append([kind, ", ".join(subject), *(sum(record[column] for record in mine) for column in COUNTS)])
    return DataFile(HEADS, rows)


def sums(records: list[Record]) -> list[str]:
    """Return the sums of several batches' counts."""
    return [f"{sum(record[column] for record in records):,}" for column in COUNTS]


def main() -> None:
    arguments = benchmark_parser(__doc__).parse_args()
    ledger = Ledger(RESULTS / "mutants.jsonl", ("program", "chip", "formulation", "kind", "batch"))
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        records = ledger.complete(settings(), measured, pool)
    publish({"mutants": table(records)}, arguments.write, {"plan-mutants.csv": subjects_file(records)})
    sys.exit(int(any(map(is_finding, records))))


if __name__ == "__main__":
    main()
