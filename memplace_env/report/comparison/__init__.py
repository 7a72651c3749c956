"""Comparisons of two plans of one task."""
