"""Networks of `scripts.zoo.networks`: recommendation, recurrence, graphs, proteins."""

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
    Input("categories", ("batch", len(CRITEO))),
)
RETRIEVAL = (Input("user", ("batch",)), Input("history", ("batch", 50)), Input("candidates", ("batch", 1000)))
# Nodes and directed edges; a network that also sends from each node to itself has a further edge per node.
CORA_NODES, CORA_EDGES = 2708, 10556
ARXIV_NODES, ARXIV_EDGES = 169_343, 2 * 1_166_243


def graph(nodes: int, features: int, edges: int) -> tuple[Input, Input]:
    """The inputs of a network over a whole graph."""
    return Input("features", (nodes, features), torch.float32), Input("edges", (2, edges))


def scales(edges: int) -> Input:
    return Input("scales", (edges,), torch.float32)


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
    "GCN-Cora": Entry(
        partial(GCN, (1433, 16, 7)),
        (*graph(CORA_NODES, 1433, CORA_EDGES + CORA_NODES), scales(CORA_EDGES + CORA_NODES)),
    ),
    "GCN-arxiv": Entry(
        partial(GCN, (128, 256, 256, 40)),
        (*graph(ARXIV_NODES, 128, ARXIV_EDGES + ARXIV_NODES), scales(ARXIV_EDGES + ARXIV_NODES)),
    ),
    "GAT-Cora": Entry(GAT, graph(CORA_NODES, 1433, CORA_EDGES + CORA_NODES)),
    "GraphSAGE": Entry(GraphSAGE, SAMPLED),
    "Evoformer-pairs": Entry(PairBlock, (Input("pairs", ("batch", 128, 128, 128), torch.float32),), ("updated",)),
}
