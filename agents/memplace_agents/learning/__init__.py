"""Parts that the learning agents share: the graph policy, training runs, and files that load without running code."""
