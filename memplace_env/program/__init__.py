"""Workloads as a `Program`: its arrays and file format, the frontends for model files, and the zoo."""
