"""Runs of the event simulator in the trace and in a picture."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from memplace_env.placement.compiler import HEURISTICS
from memplace_env.placement.resolve_task import resolve_task
from memplace_env.placement.simulator import EventSimulator
from memplace_env.placement.simulator.event.event_state import COPY, UNIT
from memplace_env.report.style import to_rgb
from memplace_env.report.timeline.machine_figure import machine_figure
from memplace_env.report.timeline.timeline import busy, busy_shares, enlarged, event_spans, lanes, timeline_of
from memplace_env.report.timeline.trace import trace_events
from tests.report.drawing.test_trace import check
from tests.subjects import Subject, subject_of

CHIPS = ("nnp-i", "tpu-v4i", "intel-npu-4000", "ethos-u65")


def run_on(chip: str) -> Subject:
    task = resolve_task("MobileNetV2", chip, simulator="event", slices=0.1 if chip == "tpu-v4i" else None)
    return subject_of(task, HEURISTICS["all-fastest"](task))


@pytest.mark.parametrize("chip", CHIPS)
def test_trace_and_lanes_hold_the_same_spans(chip: str) -> None:
    task, evaluated = subject = run_on(chip)
    spans, report = event_spans(*subject), evaluated.report
    assert spans is not None
    events = trace_events(*subject)["traceEvents"] if task.program.slices else check(subject)
    found = lanes(*subject[:1], spans)
    tiles = [event for event in events if event.get("cat") == "unit at work"]
    assert len(tiles) == len(found[0].spans)
    on = task.accelerator.mechanisms
    assert len(found) == 1 + task.accelerator.num_levels + (on.dma.engines if on.dma else 0)
    descriptors = sum(len(lane.spans) for lane in found[1 + task.accelerator.num_levels :])
    assert descriptors == sum(event.get("cat") == "an engine at a copy" for event in events)
    edges = np.linspace(0, report.latency_ps, 51).astype(np.int64)
    for lane in found:
        shares = busy_shares(spans, lane.spans, edges)
        assert ((shares >= 0) & (shares <= 1 + 1e-9)).all()
        assert (shares * np.diff(edges)).sum() == pytest.approx(busy(spans, lane, report.latency_ps) * edges[-1])
    for level, lane in enumerate(found[1 : 1 + task.accelerator.num_levels]):
        own = lane.spans[spans.kind[lane.spans] != COPY]
        assert (spans.end[own] - spans.begin[own]).sum() == report.port_ps[:, level].sum()
    begin, end = enlarged(spans, evaluated)
    assert 0 <= begin < end <= report.latency_ps
    worst = report.memory_loss_ps.argmax()
    first = np.flatnonzero((spans.kind == UNIT) & (spans.number == worst))[0]
    assert begin <= spans.begin[first] < end
    figure = machine_figure(task, evaluated, spans)
    assert to_rgb(figure).shape == (800, 1200, 3)
    texts = [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]
    assert any(" tiles, op " in text for text in texts) == (on.tiles is not None)


def test_copies_are_served_when_the_simulator_says() -> None:
    task, evaluated = run_on("intel-npu-4000")
    spans = event_spans(task, evaluated)
    assert spans is not None
    services = timeline_of(task, evaluated).services
    assert {service.transfer for service in services} == set(range(len(evaluated.plan.transfers)))
    assert len(services) == (spans.kind == COPY).sum() > len(evaluated.plan.transfers)
    assert all(before.end <= after.begin for before, after in itertools.pairwise(services))


def test_other_simulators_have_no_spans() -> None:
    task, evaluated = run_on("nnp-i")
    assert event_spans(replace(task, simulator=None), evaluated) is None
    assert isinstance(task.simulator, EventSimulator)
