"""Patterns that every compiler knows as one op, however a file writes them out."""

from memplace_env.program.frontends.patterns.patterns import with_patterns

__all__ = ["with_patterns"]
