"""Workloads: ONNX graphs, the zoo and synthetic generators, all ending in a `Program`."""
