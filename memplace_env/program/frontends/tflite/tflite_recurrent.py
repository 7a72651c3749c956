"""Rules of recurrent operators, which differ from ONNX's: TFLite has one matrix for each gate."""

from __future__ import annotations

from memplace_env.program.lowering.node_graph import Gemm, Site

LSTM_GATES = 4


def lstm(site: Site) -> Gemm:
    """One product per step: [input, state] x all gates, deeper by the projection if there is one.

    Inputs 1 to 4 are the gates' matrices for the input, [cells, features]; the first is absent where the input gate
    follows from the forget gate. Inputs 5 to 8 are those for the state, [cells, outputs]. Input 16, [outputs, cells],
    projects the cells, with as many MACs as a product of depth `outputs` and a column for each cell.
    """
    steps, batch = _steps_and_batch(site)
    cells, features = site.needed(2).shape
    outputs = site.needed(6).shape[1]
    gates = LSTM_GATES if site.input(1) is not None else LSTM_GATES - 1
    projected = outputs if site.input(16) is not None else 0
    return steps, batch, gates * (features + outputs) + projected, cells


def lstm_vector_ops(site: Site) -> int:
    """Bias and activation of each gate, and four operations that update the state, as for ONNX's LSTM."""
    steps, batch, _, cells = lstm(site)
    return steps * batch * cells * (2 * LSTM_GATES + 4)


def rnn(site: Site) -> Gemm:
    """One product per step: [input, state] x one matrix."""
    steps, batch = _steps_and_batch(site)
    cells, features = site.needed(1).shape
    return steps, batch, features + site.needed(2).shape[1], cells


def rnn_vector_ops(site: Site) -> int:
    """Bias and activation of each cell."""
    steps, batch, _, cells = rnn(site)
    return 2 * steps * batch * cells


def svdf(site: Site) -> Gemm:
    """Products of each filter with the features of the newest input and with its memory of the last steps.

    Input 1 holds [filters, features], input 2 [filters, steps].
    """
    filters, features = site.needed(1).shape
    return 1, site.needed(0).shape[0], features + site.needed(2).shape[1], filters


def svdf_vector_ops(site: Site) -> int:
    """One operation per filter: the sum over the filters of a unit."""
    _, batch, _, filters = svdf(site)
    return batch * filters


def _steps_and_batch(site: Site) -> tuple[int, int]:
    first, second, _ = site.needed(0).shape
    return (first, second) if site.attribute("time_first", False) else (second, first)
