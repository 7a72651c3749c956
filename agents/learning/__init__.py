"""What the learning agents share: the graph policy and files that load without running code."""
