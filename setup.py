"""Packages come from two roots, which setup.cfg cannot say: the folder `agents` holds the package `memplace_agents`."""

from setuptools import find_packages, setup

setup(
    packages=find_packages(include=["memplace_env*"]) + find_packages("agents"),
    package_dir={"memplace_agents": "agents/memplace_agents"},
)
