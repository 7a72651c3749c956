"""Addresses for blocks whose lives are known: rules, complete search, proofs; for tasks, and for any toolchain."""
