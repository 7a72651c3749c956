"""Placement: the `Task`, the `MemoryPlan` and its validator, simulators and the compiler."""
