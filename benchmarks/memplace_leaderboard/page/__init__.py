"""The leaderboard as a static page: a folder that any browser opens, without a server and without a network."""
