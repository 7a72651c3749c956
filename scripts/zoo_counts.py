"""Count the zoo's modules with PyTorch's own counter, for the tests of the loader.

Each entry's module runs on torch's meta device at the zoo's default dims. Multiply-accumulates are half of what
`torch.utils.flop_counter` counts: convolutions and matrix products. Parameters are those that the forward pass
touches, each once however often it is used; a buffer (a running mean, a table of positions) is no parameter.

    python -m scripts.zoo_counts              # every program
    python -m scripts.zoo_counts BERT GPT2    # some of them; the counts of others stay
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

from memplace_env.program.zoo import DEFAULT_DIMS
from scripts.export_zoo import MODELS
from scripts.zoo.counts import update_counts
from scripts.zoo.entry import Entry, Input, Network


class Touched(TorchDispatchMode):
    """Record the parameters of a module that any operation reads."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.all = {id(parameter): parameter for parameter in module.parameters()}
        self.touched: dict[int, nn.Parameter] = {}

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for leaf in tree_leaves((args, kwargs or {})):
            if id(leaf) in self.all:
                self.touched[id(leaf)] = leaf
        return operation(*args, **(kwargs or {}))


def example(item: Input) -> torch.Tensor:
    """Return a graph input at the default dims."""
    shape = [DEFAULT_DIMS[dim] if isinstance(dim, str) else dim for dim in item.dims]
    return torch.zeros(shape, dtype=item.dtype, device="meta")


def count(entry: Entry) -> dict[str, Any]:
    """Return multiply-accumulates and parameters of an entry's module, and the sizes of its dynamic axes."""
    with torch.device("meta"):
        network = Network(entry).eval()
    touched, flops = Touched(network), FlopCounterMode(display=False)
    # Meta tensors have no data: a module that branches on data takes the branches of an export.
    exporting = patch.multiple(torch.compiler, _is_compiling_flag=True, _is_exporting_flag=True)
    with torch.no_grad(), exporting, flops, touched:
        network(*map(example, entry.inputs))
    dims = {dim: DEFAULT_DIMS[dim] for item in entry.inputs for dim in item.dims if isinstance(dim, str)}
    return {
        "macs": flops.get_total_flops() // 2,
        "parameters": sum(parameter.numel() for parameter in touched.touched.values()),
        "dims": dict(sorted(dims.items())),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(MODELS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(MODELS)}")
    warnings.simplefilter("ignore")
    for name in options.names or MODELS:
        counts = count(MODELS[name])
        print(f"{name}: {counts['macs'] / 1e9:.4f} GMAC, {counts['parameters'] / 1e6:.4f} M parameters")
        update_counts({name: counts})


if __name__ == "__main__":
    main()
