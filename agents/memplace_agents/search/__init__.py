"""What searches share: evaluation, budgets and races, first plans, moves, stages."""
