"""Export the model zoo: shape-only ONNX graphs of public architectures.

A file, compressed by xz, holds the operators, shapes and types of a network and no weights: every parameter is a
`ConstantOfShape` node, so a file is small, passes `onnx.checker` and runs in ONNX Runtime (the
numbers it computes mean nothing). Models are built from their configuration on torch's meta
device: no weight is allocated, nothing is downloaded, and the same versions of the libraries
write the same bytes.

    pip install -r scripts/requirements-export.txt
    python -m scripts.export_zoo                      # every model
    python -m scripts.export_zoo BERT GPT2 --out DIR  # some of them, elsewhere
"""

from __future__ import annotations

import argparse
import logging
import lzma
import os
import warnings
from collections.abc import Sequence
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import onnx

from memplace_env._lib.files import write_atomically
from memplace_env.program.zoo import catalogue
from scripts.zoo import (
    audio,
    decoding,
    dense,
    from_timm,
    from_torchvision,
    generative,
    language,
    own,
    structured,
    vision,
)
from scripts.zoo.shape_only import shape_only

ZOO = Path(__file__).resolve().parents[1] / "memplace_env" / "program" / "zoo"
FIELDS = (vision, dense, from_torchvision, from_timm, own, language, decoding, audio, generative, structured)
MODELS = {name: entry for field in FIELDS for name, entry in field.MODELS.items()}


def write(model: onnx.ModelProto, path: Path) -> None:
    """Write a checked model in one step: no reader sees half of a file."""
    onnx.checker.check_model(model, full_check=True)
    content = model.SerializeToString(deterministic=True)
    write_atomically(path, lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(MODELS))
    parser.add_argument("--out", type=Path, default=ZOO, help="folder of the files")
    options = parser.parse_args(arguments)
    if unknown := set(options.names) - set(MODELS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(MODELS)}")
    warnings.simplefilter("ignore")
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.names or MODELS:
        path = options.out / f"{name}.onnx.xz"
        model = shape_only(catalogue()[name], MODELS[name])
        write(model, path)
        print(f"{name}: {len(model.graph.node)} nodes, {path.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
