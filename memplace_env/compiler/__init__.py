"""The compiler: turns a mapping into a plan with addresses, and has heuristics of its own."""

from memplace_env.compiler.compile import Compiled, compile_mapping
from memplace_env.compiler.heuristics import HEURISTICS, all_backing, native, weights_first

__all__ = ["HEURISTICS", "Compiled", "all_backing", "compile_mapping", "native", "weights_first"]
