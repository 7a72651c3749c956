"""A plan's run as a Chrome trace, to open in Perfetto (ui.perfetto.dev) or chrome://tracing.

Tracks: the ops, stalls and the tail, which together are the latency; the compute part of each op; the busy time of
each memory's port; the copies, as the backing memory's port really serves them. Beside them the windows in which
the plan lets each copy run, and counters of the bytes in blocks.

Within an op the ports of a machine with parallel ports all start together; serial ones take turns, the backing
memory first. The simulator only fixes sums, so the order within an op is a choice of this picture. The event simulator
says more: there the tracks show the tiles in the unit and their requests at each port, and the descriptors of copies on
each engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from memplace_env._lib.units import PS_PER_S
from memplace_env.placement.simulator.event import EventSpans
from memplace_env.placement.simulator.event.event_state import COPY, ENGINE
from memplace_env.placement.task import Task
from memplace_env.program.program import Ints, Program
from memplace_env.report.explanation.bottlenecks import moved_tensors
from memplace_env.report.plans.block_kinds import bytes_in_blocks
from memplace_env.report.plans.evaluated_plan import EvaluatedPlan
from memplace_env.report.timeline.timeline import KIND_NAMES, Timeline, event_spans, lanes, timeline_of

Event = dict[str, Any]

PROCESS = 1
OPS, COMPUTE, FIRST_LEVEL = 1, 2, 3
"""Thread ids of the tracks; level l has FIRST_LEVEL + l, the copies come after the last level."""
_PS_PER_US = PS_PER_S // 10**6


def trace_events(task: Task, evaluated: EvaluatedPlan) -> Event:
    """Return the trace as a JSON object of the trace-event format; `ts` and `dur` in microseconds."""
    timeline, spans = timeline_of(task, evaluated), event_spans(task, evaluated)
    busy = _sums(task, evaluated, timeline) if spans is None else _tiles(task, evaluated, spans)
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "program": task.program.name,
            "program_sha256": task.program.sha256,
            "accelerator": task.accelerator.name,
            "latency_s": evaluated.report.latency_s,
        },
        "traceEvents": [
            *_names(task, [] if spans is None else [lane.name for lane in lanes(task, spans)]),
            *_ops(task, evaluated, timeline),
            *busy,
            *_copies(task, evaluated, timeline),
            *_windows(task, evaluated, timeline),
            *_counters(task, evaluated, timeline),
        ],
    }


def trace_json(task: Task, evaluated: EvaluatedPlan) -> str:
    """Return `trace_events` as text, one event a line."""
    trace = trace_events(task, evaluated)
    events = ",\n".join(json.dumps(event, separators=(",", ":")) for event in trace.pop("traceEvents"))
    return json.dumps(trace)[:-1] + f', "traceEvents": [\n{events}\n]}}\n'


def _names(task: Task, engines: Sequence[str]) -> Iterator[Event]:
    def named(kind: str, thread: int, **args: Any) -> Event:
        return {"ph": "M", "name": kind, "pid": PROCESS, "tid": thread, "ts": 0, "args": args}

    yield named("process_name", 0, name=f"{task.program.name} on {task.accelerator.name}")
    ports = [f"{level.name} port" for level in task.accelerator.levels]
    for thread, name in enumerate(["ops", "compute", *ports, "copies", *engines[1 + len(ports) :]], start=OPS):
        yield named("thread_name", thread, name=name)
        yield named("thread_sort_index", thread, sort_index=thread)


def _ops(task: Task, evaluated: EvaluatedPlan, timeline: Timeline) -> Iterator[Event]:
    program, report = task.program, evaluated.report
    for op in range(program.num_ops):
        begin, time, stall = int(timeline.op_begin[op]), int(report.op_time_ps[op]), int(report.stall_ps[op])
        if stall:
            yield _slice("stall", "stall", OPS, begin - stall, stall, waits_before=program.op_name[op])
        level = int(report.bound_by[op])
        yield _slice(
            program.op_name[op],
            "op",
            OPS,
            begin,
            time,
            op=op,
            type=program.op_type[op],
            binds=task.accelerator.levels[level].name if level >= 0 else "compute",
            lost_us=_us(int(report.memory_loss_ps[op])),
            macs=int(program.macs[op]),
            vector_ops=int(program.vector_ops[op]),
        )
    if report.tail_ps:
        yield _slice("tail", "stall", OPS, int(timeline.op_begin[-1]), report.tail_ps)


def _sums(task: Task, evaluated: EvaluatedPlan, timeline: Timeline) -> Iterator[Event]:
    program, plan, report = task.program, evaluated.plan, evaluated.report
    order = [task.backing, *range(task.backing)]
    for op in range(program.num_ops):
        begin = int(timeline.op_begin[op])
        if report.compute_ps[op]:
            yield _slice(program.op_type[op], "compute", COMPUTE, begin, int(report.compute_ps[op]), op=op)
        for level in order:
            busy = int(report.port_ps[op, level])
            if busy == 0:
                continue
            moved = moved_tensors(program, plan, op, level)
            yield _slice(
                program.op_name[op],
                "port",
                FIRST_LEVEL + level,
                begin,
                busy,
                op=op,
                bytes=sum(size for _, size in moved),
                tensors=dict(moved),
            )
            begin += busy if task.costs.serial else 0


def _tiles(task: Task, evaluated: EvaluatedPlan, spans: EventSpans) -> Iterator[Event]:
    """Yield the tiles in the unit, their requests at the ports, and descriptors on the engines after the copies."""
    program, ports = task.program, task.accelerator.num_levels
    for number, lane in enumerate(lanes(task, spans)):
        thread = COMPUTE + number + (number > ports)
        for row in lane.spans.tolist():
            kind, owner, part, _, begin, end = (int(column[row]) for column in spans)
            if kind == COPY:
                continue  # in the track of copies
            name = program.tensor_name[evaluated.plan.transfers[owner, 0]] if kind == ENGINE else program.op_name[owner]
            of = {"transfer": owner, "descriptor": part} if kind == ENGINE else {"op": owner, "tile": part}
            yield _slice(name, KIND_NAMES[kind], thread, begin, end - begin, **of)


def _copies(task: Task, evaluated: EvaluatedPlan, timeline: Timeline) -> Iterator[Event]:
    program, levels = task.program, task.accelerator.levels
    thread, transfers = FIRST_LEVEL + len(levels), evaluated.plan.transfers
    joint = _joint(program, transfers)
    for copies, begin, end in _stretches(timeline, joint if program.slices else None):
        tensor, source, target, first, last = joint[copies[0]]
        near = "write-back" if target == task.backing else "copy"
        yield _slice(
            f"{'prefetch' if source == task.backing else near} {program.whole.tensor_name[tensor]}",
            "copy",
            thread,
            begin,
            end - begin,
            transfer=copies[0],
            bytes=int(program.tensor_bytes[transfers[copies, 0]].sum()),
            **({"slices": len(copies)} if program.slices else {}),
            source=levels[source].name,
            target=levels[target].name,
            first_op=first,
            last_op=last,
        )


def _joint(program: Program, transfers: Ints) -> list[tuple[int, ...]]:
    """Return what is equal for copies of slices of one tensor in one window, for each copy."""
    return [(int(program.whole_tensor[tensor]), *others) for tensor, *others in transfers.tolist()]


def _stretches(timeline: Timeline, joint: list[tuple[int, ...]] | None) -> Iterator[tuple[list[int], int, int]]:
    """Yield the copies of each service, its begin and its end; with `joint` those that meet are one."""
    copies: list[int] = []
    since = until = 0
    for copy, begin, end in timeline.services:
        if copies and joint and begin == until and joint[copy] == joint[copies[0]]:
            copies, until = list(dict.fromkeys([*copies, copy])), end
            continue
        if copies:
            yield copies, since, until
        copies, since, until = [copy], begin, end
    if copies:
        yield copies, since, until


def _windows(task: Task, evaluated: EvaluatedPlan, timeline: Timeline) -> Iterator[Event]:
    """Yield the window of each copy. All have one name, so that viewers stack them in one group of rows."""
    ends = np.append(timeline.op_begin[:-1] + evaluated.report.op_time_ps, evaluated.report.latency_ps)
    joint = _joint(task.program, evaluated.plan.transfers)
    copies = {window: copy for copy, window in reversed(list(enumerate(joint)))}
    for copy in sorted(copies.values()) if task.program.slices else range(len(joint)):
        tensor, _, _, first, last = joint[copy]
        shared = {"name": "copy window", "cat": "window", "id": copy, "pid": PROCESS, "tid": OPS}
        args = {"tensor": task.program.whole.tensor_name[tensor], "first_op": first, "last_op": last}
        yield {"ph": "b", "ts": _us(int(timeline.op_begin[first])), **shared, "args": args}
        yield {"ph": "e", "ts": _us(int(ends[last])), **shared}


def _counters(task: Task, evaluated: EvaluatedPlan, timeline: Timeline) -> Iterator[Event]:
    for level in range(task.backing):
        used = bytes_in_blocks(task.program, evaluated.plan, level)
        for op in range(task.program.num_ops + 1):
            if op == 0 or used[op] != used[op - 1]:
                yield {
                    "ph": "C",
                    "name": f"{task.accelerator.levels[level].name} in use",
                    "pid": PROCESS,
                    "tid": 0,
                    "ts": _us(int(timeline.op_begin[op])),
                    "args": {"bytes": int(used[op])},
                }


def _slice(name: str, category: str, thread: int, begin_ps: int, time_ps: int, **args: Any) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": PROCESS,
        "tid": thread,
        "ts": _us(begin_ps),
        "dur": _us(time_ps),
        "args": args,
    }


def _us(ps: int) -> float:
    """Return microseconds."""
    return ps / _PS_PER_US
