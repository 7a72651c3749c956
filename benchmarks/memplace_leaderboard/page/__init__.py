"""The leaderboard as a static page: a folder that any browser opens, without a server and without a network."""

from memplace_leaderboard.page.data import PageData
from memplace_leaderboard.page.site import build_page

__all__ = ["PageData", "build_page"]
