"""Training steps in plain JAX: forward, backward and the optimiser's update, as functions of shapes alone."""
