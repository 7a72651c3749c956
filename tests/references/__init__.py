"""Plain Python references that the tests hold the kernels equal to."""
