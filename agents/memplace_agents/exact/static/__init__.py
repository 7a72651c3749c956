"""The best level for each tensor, by rounds of a linear program, addresses and cuts."""
