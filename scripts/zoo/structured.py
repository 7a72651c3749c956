"""Networks for records, words, graphs and proteins, all of `scripts.zoo.networks`."""

from __future__ import annotations

from functools import partial

import torch

from scripts.zoo.entry import Entry, Input
from scripts.zoo.networks.folding import PairBlock
from scripts.zoo.networks.graphs import GAT, GCN, GraphSAGE
from scripts.zoo.networks.recommendation import CRITEO, CRITEO_NUMBERS, DCN, DLRM, TwoTowers
from scripts.zoo.networks.recurrent import TCN, DeepSpeech2, LanguageLSTM

REQUESTS = (
    Input("numbers", ("batch", CRITEO_NUMBERS), torch.float32),
    *(Input(f"category_{index}", ("batch",)) for index in range(len(CRITEO))),
)
RETRIEVAL = (Input("user", ("batch",)), Input("history", ("batch", 50)), Input("candidates", ("batch", 1000)))
# Nodes, and edges, which go both ways.
CORA = {"nodes": 2708, "edges": 10_556}
ARXIV = {"nodes": 169_343, "edges": 2 * 1_166_243}


def whole(features: int, nodes: int, edges: int) -> tuple[Input, ...]:
    """Return the inputs of a network over a whole graph."""
    return (
        Input("features", (nodes, features), torch.float32),
        Input("senders", (edges,)),
        Input("receivers", (edges,)),
    )


def scaled(features: int, nodes: int, edges: int) -> tuple[Input, ...]:
    """Return these inputs with the normalisation of a GCN."""
    sizes = {"edge_scales": edges, "node_scales": nodes}
    scales = (Input(name, (size, 1), torch.float32) for name, size in sizes.items())
    return *whole(features, nodes, edges), *scales


SAMPLED = tuple(
    Input(f"ring_{index}", ("batch", *fanout)) for index, fanout in enumerate(((), (15,), (15, 10), (15, 10, 5)))
)

MODELS = {
    "DLRM": Entry(DLRM, REQUESTS, ("probability",)),
    "DCN-V2": Entry(DCN, REQUESTS, ("probability",)),
    "TwoTowers": Entry(TwoTowers, RETRIEVAL, ("scores", "places")),
    "LSTM-LM-medium": Entry(partial(LanguageLSTM, 650), (Input("input_ids", ("batch", 35)),)),
    "LSTM-LM-large": Entry(partial(LanguageLSTM, 1500), (Input("input_ids", ("batch", 35)),)),
    "TCN-LM": Entry(TCN, (Input("input_ids", ("batch", "sequence")),)),
    "DeepSpeech2": Entry(DeepSpeech2, (Input("spectrogram", ("batch", 1, 161, 200), torch.float32),)),
    "GCN-Cora": Entry(partial(GCN, (1433, 16, 7)), scaled(1433, **CORA)),
    "GCN-arxiv": Entry(partial(GCN, (128, 256, 256, 40)), scaled(128, **ARXIV)),
    "GAT-Cora": Entry(GAT, whole(1433, **CORA)),
    "GraphSAGE": Entry(GraphSAGE, SAMPLED),
    "Evoformer-pairs": Entry(PairBlock, (Input("pairs", ("batch", 128, 128, 128), torch.float32),), ("updated",)),
}
