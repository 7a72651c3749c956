"""Machines: chips read from TOML, and what everything costs on them."""
