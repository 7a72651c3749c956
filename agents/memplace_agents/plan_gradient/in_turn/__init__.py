"""Proximal policy optimisation in games, use by use: `--config in-turn`, and programs that are drawn."""
