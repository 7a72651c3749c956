"""Steps from a model file of any format to a Program: a graph of nodes, ops over buffers, fused ops, arrays."""
