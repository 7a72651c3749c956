"""Addresses for blocks whose lives are known: rules, complete search, proofs; for tasks, and for any toolchain."""

# The compiler's rules use this package, which uses its kernels: the compiler comes first, whoever asks first.
from memplace_env.placement import compiler as compiler
