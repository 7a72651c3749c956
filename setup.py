"""Additions to setup.cfg: packages come from three roots, and the description has links that work elsewhere."""

import re
from pathlib import Path

from setuptools import find_packages, setup

PAGES = "https://github.com/memplace/memplace/blob/main/"
PICTURES = "https://raw.githubusercontent.com/memplace/memplace/main/"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)(?=[^)]+\))")
PICTURE = re.compile(r"(!\[[^]]*\]\()(?![a-z]+:)(?=[^)]+\))")


def description() -> str:
    """Return README.md with absolute links: an index of packages shows it without the files around it."""
    text = (Path(__file__).parent / "README.md").read_text("utf-8")
    return LINK.sub(PAGES, PICTURE.sub(rf"\1{PICTURES}", text))


setup(
    packages=find_packages(include=["memplace_env*"])
    + find_packages("agents")
    + find_packages("benchmarks", include=["memplace_leaderboard*"]),
    package_dir={
        "memplace_agents": "agents/memplace_agents",
        "memplace_leaderboard": "benchmarks/memplace_leaderboard",
    },
    long_description=description(),
)
