"""`memplace leaderboard`: what the command line of `memplace_env` gets from this package by an entry point."""
