"""Rules that the table of operators refers to, by theme. None of them reads the table."""
