"""The campaign behind every figure on learning agents, see `benchmarks.learning.__main__`."""
