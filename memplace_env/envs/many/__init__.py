"""Environments of many programs: each episode draws a program, its batch and a chip."""
