"""One decoder layer of a mixture of experts in service: static shapes, and the work of the chosen experts only."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import nn
from transformers import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralDecoderLayer, MixtralRotaryEmbedding

from scripts.zoo.networks.cached import Cache

CHOSEN = 2


class Expert(nn.Module):
    """A gated perceptron."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Chosen(nn.Module):
    """One token's two experts; the others, whose weights it does not read, are left out.

    A program cannot say which rows of a table a product reads before the router has chosen. Gathering them first, as a
    plain graph would, writes and reads them once more, which no kernel that serves does.
    """

    def __init__(self, config: MixtralConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.router = nn.Linear(width, config.num_local_experts, bias=False)
        self.experts = nn.ModuleList(Expert(width, inner) for _ in range(CHOSEN))

    def forward(self, token: torch.Tensor) -> torch.Tensor:
        shares = torch.softmax(torch.topk(self.router(token), CHOSEN).values, dim=-1).split(1, dim=-1)
        results = [expert(token) * share for expert, share in zip(self.experts, shares, strict=True)]
        return torch.stack(results).sum(0)


class Shared(nn.Module):
    """Each expert takes its even share of the tokens' choices: those for which the router scores it highest."""

    def __init__(self, config: MixtralConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.router = nn.Linear(width, config.num_local_experts, bias=False)
        self.experts = nn.ModuleList(Expert(width, inner) for _ in range(config.num_local_experts))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        rows = tokens.flatten(0, 1)
        shares = torch.softmax(self.router(rows), dim=-1)
        scores, places = torch.topk(shares.transpose(0, 1), rows.shape[0] * CHOSEN // len(self.experts))
        shared = zip(self.experts, places.unbind(0), scores[..., None].unbind(0), strict=True)
        parts = [expert(rows.index_select(0, chosen)) * score for expert, chosen, score in shared]
        result = torch.zeros_like(rows).index_add(0, places.flatten(), torch.cat(parts))
        return result.reshape(tokens.shape)


class Block(nn.Module):
    """A layer of Mixtral 8x7B with other experts."""

    def __init__(self, experts: type[nn.Module]) -> None:
        super().__init__()
        config = MixtralConfig(attn_implementation="in_parts")
        self.rotary, self.layer = MixtralRotaryEmbedding(config), MixtralDecoderLayer(config, 0)
        self.layer.mlp = experts(config)

    def forward(self, hidden_states: torch.Tensor, position_ids: torch.Tensor, **past: torch.Tensor) -> SimpleNamespace:
        cache = Cache([(past["past_key_0"], past["past_value_0"])] if past else [])
        length = hidden_states.shape[1]
        hidden = self.layer(
            hidden_states,
            position_embeddings=self.rotary(hidden_states, position_ids),
            attention_mask=None if past else self.mask(hidden_states, length),
            past_key_values=cache,
        )
        return SimpleNamespace(updated=hidden, key_0=cache.new[0][0], value_0=cache.new[0][1])

    def mask(self, like: torch.Tensor, length: int) -> torch.Tensor:
        return like.new_full((length, length), torch.finfo(like.dtype).min).triu(1)[None, None]
