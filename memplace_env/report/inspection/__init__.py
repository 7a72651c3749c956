"""Inspections: what a program asks of a chip's memories."""
