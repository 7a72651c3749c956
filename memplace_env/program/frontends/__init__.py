"""Frontends: model files of every format, each ending in a `Program`."""
