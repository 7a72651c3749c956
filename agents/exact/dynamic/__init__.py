"""Plans that move tensors while the program runs, by a linear program cut into ops."""
