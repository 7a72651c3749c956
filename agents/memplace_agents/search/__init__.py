"""The common parts of searches: evaluation, budgets and races, first plans, moves, stages."""
