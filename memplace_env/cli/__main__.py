"""`python -m memplace_env.cli`."""

from memplace import main

main()
