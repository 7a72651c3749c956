"""Slices of one tensor are shown as that tensor."""

from __future__ import annotations

import json

import numpy as np

from memplace_env.placement.compiler import place_levels
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.simulator import evaluate_plan
from memplace_env.report.explanation.bottlenecks import moved_tensors
from memplace_env.report.explanation.differences import Move, difference_of
from memplace_env.report.explanation.explanation import explain_plan
from memplace_env.report.explanation.explanation_tables import explanation_tables
from memplace_env.report.explanation.routes import routes_between, what_decides
from memplace_env.report.inspection import inspect_task, inspection_tables
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan, all_backing_baseline
from memplace_env.report.plans.memory_map import memory_map
from memplace_env.report.plans.whole_tensors import joined_blocks, part_text, split_tensors
from memplace_env.report.tables import plain_text
from memplace_env.report.timeline.trace import trace_events
from tests.subjects import SRAM, copied_slices, layers_of_rows, plan_with_copies, sliced_layers

KIB, BACKING = 1024, 2


def test_an_op_moves_tensors_not_slices() -> None:
    task, evaluated = sliced_layers()
    program, plan = task.program, evaluated.plan
    assert moved_tensors(program, plan, 0, SRAM) == (("layer.0.result", 2304 * KIB), ("layer.0.weight", 1024 * KIB))
    backing = dict(moved_tensors(program, plan, 0, BACKING))
    assert backing == {"x": 3072 * KIB, "layer.0.weight": 1024 * KIB, "layer.0.result": 768 * KIB}


def test_a_tensor_moves_once_between_two_levels() -> None:
    task, evaluated = sliced_layers()
    backing = all_backing_baseline(task)
    assert difference_of(task, backing, evaluated, 1).moves == (Move("layer.0.result", 2304 * KIB, "DRAM", "SRAM"),)
    (route,) = routes_between(task, backing, evaluated)
    assert sorted(route.to_json(task)["tensors"]) == ["layer.0.result", "layer.0.weight", "layer.2.result"]
    assert "[" not in what_decides(task, backing, evaluated)


def test_shares_of_a_tensor() -> None:
    task, evaluated = sliced_layers()
    found = split_tensors(task, evaluated.plan)
    assert [(tensor.name, tensor.slices, tensor.level_bytes.tolist()) for tensor in found] == [
        ("layer.0.result", 8, [2304 * KIB, 0, 768 * KIB]),
        ("layer.2.result", 8, [1152 * KIB, 0, 1920 * KIB]),
        ("layer.0.weight", 6, [1024 * KIB, 0, 1024 * KIB]),
    ]
    explanation = explain_plan(task, evaluated)
    text = "".join(plain_text(table) for table in explanation_tables(explanation))
    assert "Tensors in several levels" in text
    assert "layer.0.result   3 MiB        8   75.0 %     –   25.0 %" in text
    assert [item["name"] for item in explanation.to_json(8)["split_tensors"]] == [tensor.name for tensor in found]


def test_tensors_alike_are_one_row() -> None:
    task = sliced_layers().task
    names = task.program.tensor_name
    levels = [SRAM if name.endswith("weight[1/6]") else BACKING for name in names]
    plan = place_levels(task, np.array(levels)).plan
    explanation = explain_plan(task, EvaluatedPlan(plan, evaluate_plan(task, plan)))
    text = "".join(plain_text(table) for table in explanation_tables(explanation))
    assert "layer.0.weight and 3 like it   2 MiB        6   12.5 %     –   87.5 %" in text


def test_inspect_counts_slices() -> None:
    values = inspect_task(sliced_layers().task).to_json()
    assert (values["tensors"], values["cut_tensors"], values["slices"]) == (9, 7, 48)
    (totals, *_) = inspection_tables(inspect_task(sliced_layers().task))
    assert "7 tensors are cut into 48 slices" in plain_text(totals)
    whole = inspect_task(make_task(layers_of_rows(), sliced_layers().task.accelerator)).to_json()
    assert "slices" not in whole
    assert values["extremes"] == whole["extremes"]


def test_adjoining_slices_are_one_block_with_one_label() -> None:
    task, evaluated = sliced_layers()
    blocks = evaluated.plan.allocations[evaluated.plan.allocations[:, 1] == SRAM]
    joined = joined_blocks(task.program, blocks[:, 0], blocks[:, 2], blocks[:, 3:])
    assert joined.names == ["layer.0.weight 50 %", "layer.0.result 75 %", "layer.2.result 38 %"]
    assert joined.bytes.tolist() == [1024 * KIB, 2304 * KIB, 1152 * KIB]
    assert blocks[joined.block, 2].tolist() == [3072 * KIB, 0, 0], "the lowest address of each"
    apart = blocks[[0, 1, 2, 3, 5, 6, 7, 8, 9]]  # without one slice of layer.0.result
    joined = joined_blocks(task.program, apart[:, 0], apart[:, 2], apart[:, 3:])
    assert joined.names == ["layer.0.weight 50 %", "", "layer.0.result 62 %", "layer.2.result 12 %"]
    sizes = np.zeros(len(joined.bytes), dtype=np.int64)
    np.add.at(sizes, joined.part_of, task.program.tensor_bytes[apart[:, 0]])
    assert sizes.tolist() == joined.bytes.tolist(), "each block is a part of the one that it was joined to"
    labels = [text.get_text() for axes in memory_map(task, evaluated).axes for text in axes.texts]
    assert "layer.0.result 75 %" in labels
    assert not any("[" in label for label in labels)


def test_a_part_of_a_tensor_in_words() -> None:
    program = sliced_layers().task.program
    first = program.tensor_name.index("layer.0.weight[1/6]")

    def part(*numbers: int) -> str:
        return part_text(program, np.array([first + number - 1 for number in numbers]))

    assert part(2) == "slice 2 of 6, 19 %"
    assert part(4, 2, 3) == "slices 2 to 4 of 6, 50 %"
    assert part(1, 3) == "2 of 6 slices, 31 %"
    assert part(1, 2, 3, 4, 5, 6) == part_text(program, np.array([program.tensor_name.index("x")])) == ""


def test_blocks_of_whole_tensors_are_as_they_were() -> None:
    task, evaluated = plan_with_copies()
    tensor, _, offset, *times = evaluated.plan.allocations.T
    joined = joined_blocks(task.program, tensor, offset, np.column_stack(times))
    assert joined.block.tolist() == joined.part_of.tolist() == list(range(len(tensor)))
    assert joined.bytes.tolist() == task.program.tensor_bytes[tensor].tolist()
    assert joined.names == [task.program.tensor_name[index] for index in tensor]


def test_copies_of_slices_are_one_in_a_trace() -> None:
    task, evaluated = copied_slices()
    program, slices = task.program, evaluated.plan.allocations[:, 0]
    events = trace_events(task, evaluated)["traceEvents"]
    served = [event for event in events if event.get("cat") == "copy"]
    assert [event["name"] for event in served] == ["prefetch layer.1.weight"]
    assert served[0]["args"]["slices"] == 3
    assert served[0]["args"]["bytes"] == program.tensor_bytes[slices].sum()
    windows = [event["args"] for event in events if event.get("cat") == "window" and event["ph"] == "b"]
    assert windows == [{"tensor": "layer.1.weight", "first_op": 0, "last_op": 0}]
    json.dumps(events, allow_nan=False)
