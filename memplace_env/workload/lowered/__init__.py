"""What model files of every format become on their way to a Program: a graph, ops over buffers, fused ops."""
