"""MemPlace."""
