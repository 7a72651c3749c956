"""The event simulator: ops in tiles, memories and copy engines as queues, DRAM with banks; a plausible machine."""

from memplace_env.placement.simulator.event.event_bound import overlap_bound_ps
from memplace_env.placement.simulator.event.event_simulator import EventSimulator
from memplace_env.placement.simulator.event.event_spans import EventSpans

__all__ = ["EventSimulator", "EventSpans", "overlap_bound_ps"]
