"""The leaderboard as a static page: a folder that any browser opens, without a server and without a network."""

from memplace_env.leaderboard.page.content import PageData
from memplace_env.leaderboard.page.site import build_page

__all__ = ["PageData", "build_page"]
