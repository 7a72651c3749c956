"""The command line: `memplace solve BERT`."""

from memplace_env.cli.app import main

__all__ = ["main"]
