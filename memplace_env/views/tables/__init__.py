"""Tables and pictures made of letters, for the terminal (rich) and, through `base.plain_text`, for everywhere else."""
