"""What the table of operators says of constants and of sequences. None of it reads the table."""
