"""Rules of the table of operators for constants and sequences. None of them reads the table."""
