"""Plans as a page: blocks by address and time, in one file or as a part of the leaderboard's page."""
