"""`python -m memplace_env.cli`."""

from memplace_env.cli.app import main

main()
