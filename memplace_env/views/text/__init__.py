"""Numbers and reasons as people read them, in plain text."""
