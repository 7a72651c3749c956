"""Plans: memory maps, result tables, headlines."""
