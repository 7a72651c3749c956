"""The trace keeps to the trace-event format and to the report."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from memplace_env.machine.accelerator import load_accelerator
from memplace_env.placement.compiler import native_plan
from memplace_env.placement.resolve_task import make_task
from memplace_env.placement.synthetic import planted, random_dag
from memplace_env.report.timeline.trace import OPS, trace_events, trace_json
from tests.subjects import Subject, subject_of

REQUIRED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "M": {"name", "pid", "tid", "args"},
    "C": {"name", "pid", "ts", "args"},
    "b": {"name", "cat", "id", "pid", "tid", "ts"},
    "e": {"name", "cat", "id", "pid", "tid", "ts"},
}
TICK = 1e-6
"""One picosecond in microseconds: what two floats may differ by."""


def check(subject: Subject) -> list[dict[str, Any]]:
    plan, report = subject.evaluated.plan, subject.evaluated.report
    events: list[dict[str, Any]] = trace_events(*subject)["traceEvents"]
    latency_us = report.latency_ps / 1e6
    tracks = defaultdict(list)
    for event in events:
        assert REQUIRED[event["ph"]] <= event.keys()
        assert 0 <= event["ts"] <= latency_us + TICK
        if event["ph"] == "X":
            assert event["dur"] > 0
            tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    for slices in tracks.values():
        slices.sort()
        assert slices[-1][1] <= latency_us + TICK
        for (_, end), (begin, _) in pairwise(slices):
            assert begin >= end - TICK, "slices of one track overlap"
    named = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert tracks.keys() <= named.keys()
    assert sum(end - begin for begin, end in tracks[OPS]) == pytest.approx(latency_us)
    ports = [f"{level.name} port" for level in subject.task.accelerator.levels]
    for level, port in enumerate(ports):
        busy = sum(end - begin for tid, slices in tracks.items() if named[tid] == port for begin, end in slices)
        assert busy == pytest.approx(report.port_ps[:, level].sum() / 1e6)
    opened = [event["id"] for event in events if event["ph"] == "b"]
    assert opened == [event["id"] for event in events if event["ph"] == "e"] == list(range(len(plan.transfers)))
    return events


def test_handmade_plan(copies: Subject) -> None:
    events = check(copies)
    names = [event["name"] for event in events if event.get("cat") in ("stall", "copy")]
    assert {"stall", "tail", "prefetch w2", "write-back h0", "write-back y"} <= set(names)
    op = next(event for event in events if event["name"] == "layer[0]" and event["cat"] == "op")
    assert op["args"]["binds"] == "DRAM"
    port = next(event for event in events if event["name"] == "layer[0]" and event["cat"] == "port")
    assert port["args"]["bytes"] == sum(port["args"]["tensors"].values())


@pytest.mark.parametrize("chip_name", ["nnp-i", "tpu-v4i"])
def test_compiled_plans(chip_name: str) -> None:
    """Parallel and serial ports, resident and streamed weights."""
    chip = load_accelerator(chip_name)
    for program in (random_dag(3, ops=30), planted("diamond", ops=12, accelerator=chip).program):
        task = make_task(program, chip)
        check(subject_of(task, native_plan(task)))


def test_text_is_the_same_json(copies: Subject) -> None:
    assert json.loads(trace_json(*copies)) == json.loads(json.dumps(trace_events(*copies)))
