"""Plans that move tensors while the program runs, by a linear program over the ops."""
