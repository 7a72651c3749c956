"""Operators of ONNX as functions of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from memplace_env.device.operators.elementwise import ELEMENTWISE
from memplace_env.device.operators.indexing import INDEXING
from memplace_env.device.operators.moves import MOVES
from memplace_env.device.operators.node import Builder
from memplace_env.device.operators.normalisations import NORMALISATIONS
from memplace_env.device.operators.pools import POOLS
from memplace_env.device.operators.products import PRODUCTS
from memplace_env.device.operators.quantisation import QUANTISATION
from memplace_env.device.operators.recurrent import RECURRENT
from memplace_env.device.operators.reductions import REDUCTIONS
from memplace_env.device.operators.sampling import SAMPLING
from memplace_env.device.operators.shapes import SHAPES

OPERATORS: Final[Mapping[str, Builder]] = {
    **ELEMENTWISE, **INDEXING, **MOVES, **NORMALISATIONS, **POOLS, **PRODUCTS, **QUANTISATION, **RECURRENT,
    **REDUCTIONS, **SAMPLING, **SHAPES,
}  # fmt: skip
"""For each operator of the default domain what makes the function of a node."""
