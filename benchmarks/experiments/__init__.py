"""The experiments, a module each: `EXPERIMENTS` of each module."""
