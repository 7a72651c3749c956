"""Mamba with its recurrence unrolled and no copies for the steps."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import MambaConfig, MambaForCausalLM
from transformers.models.mamba import modeling_mamba


def scan(
    inputs: torch.Tensor,
    step_sizes: torch.Tensor,
    decay: torch.Tensor,
    into: torch.Tensor,
    out: torch.Tensor,
    D: torch.Tensor,  # noqa: N803 - passed by this name
    z: torch.Tensor,
    delta_bias: torch.Tensor,
    **_: Any,
) -> torch.Tensor:
    """The selective scan of arXiv:2312.00752, algorithm 2, as a loop over the tokens.

    Args:
        inputs: [batch, channels, tokens], as are the next and the result.
        step_sizes: before the bias and softplus.
        decay: A, [channels, states].
        into: B, [batch, states, tokens], the next likewise.
        out: C.
        D: [channels], what goes past the states.
        z: the gate, like the inputs.
        delta_bias: of the step sizes, [channels].
    """
    steps = nn.functional.softplus(step_sizes + delta_bias[:, None])[..., None]
    kept = torch.exp(decay[None, :, None, :] * steps).split(1, dim=2)
    added = (steps * into.transpose(1, 2)[:, None] * inputs[..., None]).split(1, dim=2)
    readers = out.transpose(1, 2)[:, None, :, :, None].split(1, dim=2)
    state, results = added[0], []
    for index, reader in enumerate(readers):
        if index:
            state = kept[index] * state + added[index]
        results.append(state @ reader.squeeze(2))
    whole = torch.cat(results, dim=2).squeeze(-1)
    return (whole + inputs * D[:, None]) * nn.functional.silu(z)


def mamba(**numbers: Any) -> nn.Module:
    """A transformers model with that scan."""
    modeling_mamba.mamba_selective_scan = scan
    return MambaForCausalLM(MambaConfig(**numbers, use_cache=False))
