"""Computes the contents of small constants with ONNX's own reference implementation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from onnx import GraphProto, NodeProto

from memplace_env.workload.onnx.graph import Array


def evaluate(node: NodeProto, inputs: Sequence[Array | None], opset: int) -> list[Array] | None:
    """Outputs of a node of the standard operator set, or None if its implementation cannot compute them.

    Args:
        node: without subgraphs.
        inputs: contents in the node's positions, None for an absent optional input.
        opset: version of the operator set.
    """
    from onnx.reference import ReferenceEvaluator  # takes 50 ms, and not every model has shape arithmetic

    graph = GraphProto(node=[node])
    feeds = {}
    for name, data in zip(node.input, inputs, strict=True):
        if data is not None and name not in feeds:
            graph.input.add().name = name
            feeds[name] = data
    for name in filter(None, node.output):
        graph.output.add().name = name
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(graph, opsets={"": opset}).run(None, feeds)
    except Exception:  # any op may be missing or fail in its own way; the value is then merely unknown
        return None
    return [np.asarray(result) for result in results]
