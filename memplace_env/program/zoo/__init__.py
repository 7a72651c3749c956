"""The zoo: programs that ship with the package, as ONNX graphs without the weights' bytes and as saved Programs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, NamedTuple

from memplace_env._lib.errors import WorkloadError
from memplace_env._lib.hints import nearest

DEFAULT_DIMS: Final[Mapping[str, int]] = {
    "batch": 1,
    "sequence": 128,
    "decoder_sequence": 128,
    "past_sequence": 1024,
}
"""Default sizes of the zoo's symbolic dims."""

SUFFIXES: Final = (".onnx.xz", ".program")
"""File name suffixes of the programs."""


class Listing(NamedTuple):
    """Description of a program of the zoo, without reading the program.

    Attributes:
        name: name of the program.
        family: its architecture; programs of a family differ in size or task.
        group: name of the families with the same backbone, blocks or tables; splits go by group.
        kind: task of the family.
        text: description in one line.
        code: the library that it was exported from.
        licence: licence of that code.
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
    """Return every program of the zoo by name, in alphabetical order."""
    table = tomllib.loads(files("memplace_env.program.zoo").joinpath("families.toml").read_text("utf-8"))
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
    """Return the names of all workloads in the zoo, in alphabetical order."""
    return tuple(catalogue())


def zoo_path(name: str) -> Path:
    """Return the file of a zoo workload; upper and lower case are the same.

    Raises:
        WorkloadError: there is no such workload (the message names the nearest one), or its file is not installed.
    """
    by_lower = {proper.lower(): proper for proper in zoo_names()}
    proper = by_lower.get(name.lower())
    if proper is None:
        close = nearest(name, zoo_names())
        hint = f" Did you mean {close}?" if close else ""
        raise WorkloadError(
            f"There is no workload {name!r}.{hint} `memplace workloads` lists the {len(by_lower)} of the zoo; "
            "a path to an .onnx, .tflite, .mlir or .program file or a 'synthetic:...' text works too."
        )
    home = files("memplace_env.program.zoo")
    for suffix in SUFFIXES:
        if (file := home.joinpath(proper + suffix)).is_file():
            return Path(str(file))
    raise WorkloadError(f"This installation lacks the file of the workload {proper!r}; install memplace again.")
