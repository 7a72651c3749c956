"""A picture of where the sum of op times and the event simulator differ: two plans that are equally fast by the sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from memplace_env._lib.units import PS
from memplace_env.placement.memory_plan import MemoryPlan
from memplace_env.placement.simulator import EventSimulator, Report, evaluate_plan, time_plan
from memplace_env.placement.simulator.event.event_state import LOAD, UNIT, WRITE
from memplace_env.placement.task import Task
from memplace_env.report.style import (
    AXIS_PT,
    BASELINE,
    FAINT,
    INK,
    LATENCY,
    MUTED,
    PANEL_PT,
    TITLE_PT,
    new_figure,
    paler,
    to_png,
)

WIDTH_PX, HEIGHT_PX = 1200, 1080
COLOURS: Final = (BASELINE, LATENCY)
"""Colours of the two plans."""
OPS_SHOWN: Final = 3
"""Number of ops of the timeline; the second is the one where the first plan loses most against the second."""
_US: Final = PS * 1e6


class Timed(NamedTuple):
    """A plan, timed by the costs and by the machine."""

    plan: MemoryPlan
    by_costs: Report
    by_events: Report

    @property
    def lag_us(self) -> Any:
        """float64[T], how far the machine is behind the sum at the end of each op."""
        ends = [np.cumsum(report.op_time_ps + report.stall_ps) for report in (self.by_events, self.by_costs)]
        return (ends[0] - ends[1]) * _US

    @property
    def memory_us(self) -> Any:
        """float64[T], how long each op keeps the backing memory busy."""
        return self.by_costs.port_ps[:, -1] * _US


def draw(task: Task, plans: Mapping[str, MemoryPlan]) -> bytes:
    """Return a PNG of two plans by name, the one that is slower on the machine first."""
    nominal = replace(task, simulator=None)
    timed = {name: Timed(plan, time_plan(nominal, plan), evaluate_plan(task, plan)) for name, plan in plans.items()}
    figure = new_figure(WIDTH_PX, HEIGHT_PX)
    where = {"hspace": 0.75, "top": 0.91, "bottom": 0.06, "left": 0.07, "right": 0.98}
    grid = figure.add_gridspec(5, 1, height_ratios=[2, 1, 1, 1, 1], **where)
    lag, *axes = (figure.add_subplot(grid[row]) for row in range(5))
    names = f"{task.program.name} on {task.accelerator.name}"
    figure.suptitle(f"{names}: equally fast as a sum of op times, not on the machine", fontsize=TITLE_PT, color=INK)
    _draw_lag(lag, timed)
    memory = task.accelerator.levels[-1].name
    first, second = timed.values()
    worst = int(np.argmax(np.diff(first.lag_us - second.lag_us, prepend=0.0)))
    shown = range(max(worst - 1, 0), min(worst + OPS_SHOWN - 1, task.program.num_ops))
    strips = axes[2:]
    for (name, one), under, strip, colour in zip(timed.items(), axes, strips, COLOURS, strict=False):
        busy = f"{memory} is busy {one.memory_us.sum():,.0f} µs in all"
        _draw_memory(
            under, f"2. Time of each op by the costs (grey), and of it {memory} (coloured): {name}, {busy}", one, colour
        )
        _draw_timeline(strip, task, name, one, colour, shown)
    end = max(axis.get_xlim()[1] for axis in strips)
    for axis in strips:
        axis.set_xlim(0, end)
    strips[-1].set_xlabel(f"µs since op {shown[0]} could begin", fontsize=AXIS_PT, color=INK)
    return to_png(figure)


def _draw_lag(axis: Any, timed: Mapping[str, Timed]) -> None:
    for (name, one), colour in zip(timed.items(), COLOURS, strict=True):
        costs, events = one.by_costs.latency_ps * _US, one.by_events.latency_ps * _US
        label = f"{name}: {costs:,.1f} µs as a sum, {events:,.1f} µs on the machine ({events / costs - 1:+.1%})"
        axis.plot(one.lag_us, color=colour, linewidth=2.2, label=label)
    _finish(axis, "1. How far the machine is behind the sum of op times when each op ends", "µs")
    axis.set_ylim(bottom=0)
    axis.grid(axis="y", color=FAINT, linewidth=0.6)
    axis.legend(loc="upper left", fontsize=PANEL_PT, frameon=False)


def _draw_memory(axis: Any, title: str, one: Timed, colour: str) -> None:
    ops = np.arange(len(one.memory_us))
    axis.bar(ops, one.by_costs.op_time_ps * _US, width=0.9, color=FAINT)
    axis.bar(ops, one.memory_us, width=0.9, color=colour)
    _finish(axis, title, "µs")
    axis.set_xlabel("op", fontsize=AXIS_PT, color=INK, labelpad=0)


def _draw_timeline(axis: Any, task: Task, name: str, one: Timed, colour: str, ops: range) -> None:
    """Draw what keeps the ports and the unit busy for some ops: reads dark, writes pale, tile by tile."""
    simulator = task.simulator
    assert isinstance(simulator, EventSimulator)
    spans = simulator.spans(task.program, task.accelerator, one.plan)
    levels = [level.name for level in task.accelerator.levels]
    lanes = [len(levels) - 1, *range(len(levels) - 1), -1]
    ends = np.cumsum(one.by_events.op_time_ps + one.by_events.stall_ps) * _US
    begin = ends[ops[0] - 1] if ops[0] else 0.0
    fill = {LOAD: colour, WRITE: paler(colour, 0.6), UNIT: paler(MUTED, 0.4)}
    for kind, number, _, level, start, end in zip(*spans, strict=True):
        if kind in fill and number in ops:
            where = {"left": start * _US - begin, "width": (end - start) * _US}
            axis.barh(lanes.index(level), height=0.8, color=fill[kind], edgecolor="white", linewidth=0.5, **where)
    for op in ops:
        unit = spans.kind == UNIT
        of_op = unit & (spans.number == op)
        middle = (spans.begin[of_op].min() + spans.end[of_op].max()) / 2 * _US - begin
        axis.text(middle, len(lanes) - 1, f"op {op}", ha="center", va="center", fontsize=AXIS_PT, color=INK)
    axis.set_yticks(range(len(lanes)), [levels[lane] if lane >= 0 else "unit" for lane in lanes])
    axis.set_ylim(len(lanes) - 0.5, -0.5)
    _finish(axis, f"3. Three ops on the machine, tile by tile; reads dark, writes pale: {name}", "")


def _finish(axis: Any, title: str, unit: str) -> None:
    axis.set_title(title, fontsize=PANEL_PT, color=INK, loc="left")
    axis.set_ylabel(unit, fontsize=AXIS_PT, color=INK)
    axis.margins(x=0.005)
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
