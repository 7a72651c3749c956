"""The command line: `memplace solve BERT`."""
