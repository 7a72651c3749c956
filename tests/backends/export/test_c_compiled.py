"""A compiler takes the headers, and what a program reads from one is the plan; so is examples/walk_plan.c."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from memplace_env.backends.export import text_of
from memplace_env.envs.malloc_game import MallocGameProblem
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.resolve_task import make_task, resolve_task
from memplace_env.placement.task import Task
from tests.backends.export.expected import Tables, require_tables_of, tables_in
from tests.by_hand import machine
from tests.placement.plan import test_validate_in_place as in_place
from tests.source import ROOT

STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
LANGUAGES = {"gcc": ("-std=c11", "-x", "c"), "g++": ("-std=c++11", "-x", "c++")}
HOSTILE = ('"; }; #error', "*/ int x; /*", "??/", "\\", "é\n\r\t\x1b[31m", "%s%n", "\ud800", "#include <x>", "9" * 5000)
FIELDS = {
    "levels": "*name capacity_bytes arena_bytes alignment_bytes",
    "tensors": "*name kind bytes backing_offset first_allocation allocation_count",
    "allocations": "tensor level offset first_op last_op",
    "copies": "tensor source_level target_level source_offset target_offset earliest_op latest_op",
    "ops": "*name *type first_use use_count",
    "uses": "tensor level offset is_result",
}
"""Fields of each table; `*` marks text."""
OF_SLICES = {
    "slices": "whole first_row row_count",
    "wholes": "*name bytes block_count row_count first_slice slice_count",
}
"""The same for the tables that headers of sliced plans have besides."""
PRINTER = """
#include "plan.h"
#include <inttypes.h>
#include <stdio.h>
static void text(const char *s) {
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\\\' || (unsigned char)*s < 32) printf("\\\\u%04x", (unsigned char)*s);
        else putchar(*s);
    }
    putchar('"');
}
int main(void) {
    uint32_t i;
    printf("{");
TABLES
    printf("\\"program\\": "); text(memplace_program); printf("}");
    return 0;
}
"""


def compiled(compiler: str, folder: Path, source: str, header: str) -> str:
    """Return the lines that the program prints."""
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    (folder / "plan.h").write_text(header)
    (folder / "main.c").write_text(source)
    command = [compiler, *LANGUAGES[compiler], *STRICT, "main.c", "-o", "main"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return subprocess.run([folder / "main"], capture_output=True, check=True).stdout.decode()


def printer(fields: Mapping[str, str] = FIELDS) -> str:
    """A program that prints a header's tables as JSON, by the names of their fields."""
    body = ""
    for table, names in fields.items():
        prints = ' printf(","); '.join(
            f"text(memplace_{table}[i].{name[1:]});"
            if name.startswith("*")
            else f'printf("%" PRIu64, (uint64_t)memplace_{table}[i].{name});'
            for name in names.split()
        )
        loop = f"for (i = 0; i < MEMPLACE_{table.upper()}; i++)"
        body += f'    printf("\\"{table}\\": [");\n    {loop} {{ printf(i ? ",[" : "["); {prints} printf("]"); }}\n'
        body += '    printf("],");\n'
    return PRINTER.replace("TABLES", body)


@cache
def hostile_game() -> tuple[Task, MemoryPlan]:
    """A game with copies in both directions, over tensors whose names would do something if they could."""
    plain = resolve_task("synthetic:diamond?ops=9&seed=1", machine(weights="streamed")).program
    names = tuple(HOSTILE[k % len(HOSTILE)] + str(k) for k in range(plain.num_tensors))
    ops = tuple(HOSTILE[k % len(HOSTILE)] for k in range(plain.num_ops))
    op_types = tuple(name.encode(errors="replace").decode() for name in ops[::-1])  # hashed, so there are no others
    program = replace(plain, name=HOSTILE[0], tensor_name=names, op_name=ops, op_type=op_types)
    fast, slow = machine().levels
    chip = machine(levels=(replace(fast, name=HOSTILE[1], capacity_bytes=9_000_000), slow))
    task = make_task(program, chip)
    problem = MallocGameProblem(task)
    states = problem.new_states(16)
    problem.finish_randomly(states, 0)
    plans = [problem.plan(state) for state in states]
    return task, max(plans, key=lambda plan: len(set(plan.transfers[:, 1])) * 1000 + len(plan.transfers))


@pytest.mark.parametrize("compiler", LANGUAGES)
def test_a_program_reads_the_plan(compiler: str, tmp_path: Path) -> None:
    task, plan = hostile_game()
    assert set(plan.transfers[:, 1]) == {0, 1}, "copies in both directions"
    header = text_of(task, plan)
    said = json.loads(compiled(compiler, tmp_path, printer(), header))
    tables: Tables = {name: said[name] for name in FIELDS}
    require_tables_of(task, plan, tables)
    assert tables == tables_in(header)
    assert said["program"] == HOSTILE[0]


@pytest.mark.parametrize("compiler", LANGUAGES)
def test_a_program_reads_a_sliced_plan(compiler: str, tmp_path: Path) -> None:
    task = resolve_task("SqueezeNet", "ethos-u65", slices=0.2)
    assert task.program.slices is not None
    plan, fields = native_plan(task), FIELDS | OF_SLICES
    header = text_of(task, plan)
    said = json.loads(compiled(compiler, tmp_path, printer(fields), header))
    tables: Tables = {name: said[name] for name in fields}
    require_tables_of(task, plan, tables)
    assert tables == tables_in(header)
    assert tuple(row[0] for row in tables["tensors"]) == task.program.tensor_name
    assert tuple(row[0] for row in tables["wholes"]) == task.program.whole.tensor_name


def test_a_program_reads_an_aligned_plan_with_inputs_in_blocks(tmp_path: Path) -> None:
    task = resolve_task("SqueezeNet", "ethos-u65", alignment=128, io_level="any", slices=0.2)
    plan = native_plan(task)
    header = text_of(task, plan)
    tables = json.loads(compiled("gcc", tmp_path, printer(), header))
    assert tables["levels"] == tables_in(header)["levels"]
    assert tables["levels"][0][3] == 128
    assert tables["allocations"]
    assert {row[1]: row[3] for row in tables["ops"]}.items() >= {("Inputs", 1), ("Outputs", 1)}


@pytest.mark.parametrize("compiler", LANGUAGES)
def test_a_program_reads_results_in_place(compiler: str, tmp_path: Path) -> None:
    """b has the place of a, d that of c; the comment says what an op does that finds it so."""
    plan, _ = in_place.planned(in_place.chain(), in_place.BLOCKS)
    header = text_of(make_task(in_place.chain(), machine()), plan)
    fields = {name: names for name, names in FIELDS.items() if name != "copies"}  # of which it has none
    said = json.loads(compiled(compiler, tmp_path, printer(fields), header))
    found = [
        [use[:3] for use in said["uses"][first : first + count] if use[1] == 0] for *_, first, count in said["ops"]
    ]
    a, b, c, d = in_place.A, in_place.B, in_place.C, in_place.D
    assert found == [[[a, 0, 0]], [[a, 0, 0], [b, 0, 0], [c, 0, 40]], [[b, 0, 0], [c, 0, 40], [d, 0, 40]], [[d, 0, 40]]]
    assert "op writes it over that operand" in header
    assert "op writes it over" not in text_of(*hostile_game())


def test_nothing_to_say_compiles_too(tmp_path: Path) -> None:
    task, _ = hostile_game()
    plan = task.make_plan(np.full(task.program.num_uses, task.backing), np.empty((0, 5)))
    header = text_of(task, plan)
    source = (
        '#include "plan.h"\nint main(void) { return memplace_copies[0].tensor || memplace_allocations[0].tensor; }\n'
    )
    assert compiled("gcc", tmp_path, source, header) == ""
    assert tables_in(header)["copies"] == tables_in(header)["allocations"] == []


def test_two_plans_in_one_file(tmp_path: Path) -> None:
    """Their prefixes must differ in more than case."""
    task, plan = hostile_game()
    both = text_of(task, plan, prefix="first") + text_of(task, plan, prefix="Second")
    use = "int main(void) { return first_tensors[0].kind > 9 || Second_tensors[0].kind > 9; }\n"
    compiled("gcc", tmp_path, f'#include "plan.h"\n#include "plan.h"\n{use}', both)


@pytest.mark.parametrize("compiler", LANGUAGES)
@pytest.mark.parametrize("copies", [True, False])
def test_the_example(copies: bool, compiler: str, tmp_path: Path) -> None:
    code = (ROOT / "examples" / "walk_plan.c").read_text(encoding="utf-8")
    task = resolve_task("synthetic:chain?ops=4", "tpu-v4i")
    behind = np.full(task.program.num_uses, task.backing)
    plan = native_plan(task) if copies else task.make_plan(behind, np.empty((0, 5)))
    lines = compiled(compiler, tmp_path, code, text_of(task, plan)).splitlines()
    assert [line for line in lines if line.startswith("run ")] == [f"run {name}" for name in task.program.op_name]
    assert sum(line.startswith("start copying ") for line in lines) == len(plan.transfers)
    assert bool(len(plan.transfers)) == copies
    assert lines[-1] == f"{(plan.use_level == 0).sum()} uses in {task.accelerator.levels[0].name}"
