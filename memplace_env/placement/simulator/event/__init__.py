"""The event simulator: ops in tiles, memories and copy engines as queues, DRAM with banks; a plausible machine."""

from memplace_env.placement.simulator.event.event_simulator import EventSimulator, EventSpans, overlap_bound_ps

__all__ = ["EventSimulator", "EventSpans", "overlap_bound_ps"]
