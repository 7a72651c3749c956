"""Operators of ONNX as functions of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memplace_env.backends.cuda.operators.elementwise import ELEMENTWISE, QUANTISATION
from memplace_env.backends.cuda.operators.indexing import INDEXING
from memplace_env.backends.cuda.operators.moves import MOVES, SHAPES
from memplace_env.backends.cuda.operators.node import Builder
from memplace_env.backends.cuda.operators.products import PRODUCTS, RECURRENT
from memplace_env.backends.cuda.operators.reductions import NORMALISATIONS, REDUCTIONS
from memplace_env.backends.cuda.operators.sampling import SAMPLING
from memplace_env.backends.cuda.operators.windows import POOLS

OPERATORS: Final[Mapping[str, Builder]] = {
    **ELEMENTWISE, **INDEXING, **MOVES, **NORMALISATIONS, **POOLS, **PRODUCTS, **QUANTISATION, **RECURRENT,
    **REDUCTIONS, **SAMPLING, **SHAPES,
}  # fmt: skip
"""Builders of nodes' functions, by operator of the default domain."""
