"""Timelines: when everything happens, and traces of it."""
