"""Explanations: how and why a plan differs from another, op by op."""
