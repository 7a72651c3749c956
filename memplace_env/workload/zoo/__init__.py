"""The zoo: programs without weights' bytes that ship with the package, ONNX graphs and saved Programs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from memplace_env.errors import WorkloadError
from memplace_env.hints import nearest

DEFAULT_DIMS: Final[Mapping[str, int]] = {
    "batch": 1,
    "sequence": 128,
    "decoder_sequence": 128,
    "past_sequence": 1024,
}
"""Sizes of the zoo's symbolic dims where the user says nothing."""

SUFFIXES: Final = (".onnx", ".program")
"""Of the files that programs are shipped in."""


class Listing(NamedTuple):
    """What is known of a program of the zoo without reading it.

    Attributes:
        name: its name.
        family: the architecture that it is a size or a use of.
        group: of families with the same backbone, blocks or tables; splits go by group.
        kind: what the family is for.
        text: what it is, in one line.
        code: the library that it was exported from.
        licence: of that code.
    """

    name: str
    family: str
    group: str
    kind: str
    text: str
    code: str
    licence: str


@cache
def catalogue() -> Mapping[str, Listing]:
    """Every program of the zoo by its name, in alphabetical order."""
    table = tomllib.loads(files("memplace_env.workload.zoo").joinpath("families.toml").read_text("utf-8"))
    listings = []
    for family, about in table.items():
        common = {
            "family": family,
            "group": about.get("group", family),
            **{key: about[key] for key in ("kind", "code", "licence")},
        }
        for name, own in about["programs"].items():
            listings.append(Listing(name=name, **common | (own if isinstance(own, dict) else {"text": own})))
    return {listing.name: listing for listing in sorted(listings, key=lambda listing: listing.name.lower())}


def zoo_names() -> tuple[str, ...]:
    """Names of all workloads in the zoo, in alphabetical order."""
    return tuple(catalogue())


def zoo_path(name: str) -> Path:
    """The file of a zoo workload; upper and lower case are the same.

    Raises:
        WorkloadError: no such workload, then it names the nearest one; or its file is not installed.
    """
    by_lower = {known.lower(): known for known in zoo_names()}
    known = by_lower.get(name.lower())
    if known is None:
        close = nearest(name, zoo_names())
        hint = f" Did you mean {close}?" if close else ""
        raise WorkloadError(
            f"There is no workload {name!r}.{hint} `memplace workloads` lists the {len(by_lower)} of the zoo; "
            "a path to an .onnx, .tflite, .mlir or .program file or a 'synthetic:...' text works too."
        )
    home = files("memplace_env.workload.zoo")
    for suffix in SUFFIXES:
        if (file := home.joinpath(known + suffix)).is_file():
            return Path(str(file))
    raise WorkloadError(f"This installation lacks the file of the workload {known!r}; install memplace again.")
