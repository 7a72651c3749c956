"""Pictures of a one-shot plan."""
