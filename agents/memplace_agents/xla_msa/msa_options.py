"""The options of memory-space assignment and the public sets of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from memplace_env._lib.errors import AgentError


@dataclass(frozen=True)
class MsaOptions:
    """Options of `assign`. The defaults are XLA's open-source ones.

    "XLA" below means the `Options` of its open-source code; "tests" the values its own unit tests use, which stand
    in where XLA has no default; "llama2" the autotuned flags published for llama2-70b on Trillium (TPU v6e).

    Attributes:
        max_retries: number of attempts at each buffer. XLA 1, llama2 2. The last attempt ignores eviction bandwidth.
        max_repacks: number of times that all addresses may be chosen anew to make room. XLA 0, llama2 18.
        max_outstanding_prefetches: most copies to fast memory under way at once, -1 for any number. XLA -1, llama2 131.
        max_outstanding_evictions: the same for copies back. XLA -1, llama2 136.
        min_overlap_ratio: least overlap of a copy with ops, in units of its own duration. Tests 0.8, llama2 1.4973.
        preferred_overlap_ratio: the overlap that is tried first. Tests 1.5, llama2 8.3221.
        max_overlap_ratio: longest time that a buffer may wait in fast memory for its next use, in units of the duration
            of a copy of all fast memory. Tests 10, llama2 16.0009.
        copy_bandwidth_scale: fraction of the bandwidth that copies are planned with. XLA 1, llama2 1.0044.
        inefficient_use_ratio: a stay in fast memory is undone if this times the bytes copied for it exceeds the bytes
            that it serves. XLA 0 (off), llama2 0.471.
        benefit_scale: "sqrt" divides a buffer's benefit by the root of its size before sorting, "none" does not.
            XLA "sqrt", llama2 "none".
        fifo_prefetches: True if no prefetch may begin after another and end before it. XLA False, llama2 True.
        reserved_bytes: bytes at the bottom of fast memory that no buffer may use. XLA 0.
        picker_bytes: size to assume for all copies when choosing their time, which makes them nearly first in, first
            out; None for their own. XLA None, llama2 26,672,104.

    Raises:
        AgentError: if a value is out of range.
    """

    max_retries: int = 1
    max_repacks: int = 0
    max_outstanding_prefetches: int = -1
    max_outstanding_evictions: int = -1
    min_overlap_ratio: float = 0.8
    preferred_overlap_ratio: float = 1.5
    max_overlap_ratio: float = 10.0
    copy_bandwidth_scale: float = 1.0
    inefficient_use_ratio: float = 0.0
    benefit_scale: Literal["sqrt", "none"] = "sqrt"
    fifo_prefetches: bool = False
    reserved_bytes: int = 0
    picker_bytes: int | None = None

    def __post_init__(self) -> None:
        ranges = (
            ("max_retries", "at least 1", self.max_retries >= 1),
            ("max_repacks", "at least 0", self.max_repacks >= 0),
            ("max_outstanding_prefetches", "at least -1", self.max_outstanding_prefetches >= -1),
            ("max_outstanding_evictions", "at least -1", self.max_outstanding_evictions >= -1),
            ("min_overlap_ratio", "at least 0", self.min_overlap_ratio >= 0),
            ("preferred_overlap_ratio", "at least 0", self.preferred_overlap_ratio >= 0),
            ("max_overlap_ratio", "at least 0", self.max_overlap_ratio >= 0),
            ("copy_bandwidth_scale", "more than 0", self.copy_bandwidth_scale > 0),
            ("inefficient_use_ratio", "at least 0", self.inefficient_use_ratio >= 0),
            ("benefit_scale", "'sqrt' or 'none'", self.benefit_scale in ("sqrt", "none")),
            ("reserved_bytes", "at least 0", self.reserved_bytes >= 0),
            ("picker_bytes", "None or at least 1", self.picker_bytes is None or self.picker_bytes >= 1),
        )
        for name, allowed, valid in ranges:
            if not valid:
                raise AgentError(f"{name}={getattr(self, name)!r} is out of range; pass {allowed}.")


LLAMA2_70B = MsaOptions(
    max_retries=2,
    max_repacks=18,
    max_outstanding_prefetches=131,
    max_outstanding_evictions=136,
    min_overlap_ratio=1.4973,
    preferred_overlap_ratio=8.3221,
    max_overlap_ratio=16.0009,
    copy_bandwidth_scale=1.0044,
    inefficient_use_ratio=0.471,
    benefit_scale="none",
    fifo_prefetches=True,
    picker_bytes=26_672_104,
)
"""The autotuned flags for prefill of llama2-70b on Trillium in Google's public MaxText scripts, without the parts that
`PUBLIC_SETS` lists as left out."""


class PublicSet(NamedTuple):
    """A published set of options.

    Attributes:
        name: its name in tables.
        options: the values.
        left_out: its parts that `assign` does not have.
    """

    name: str
    options: MsaOptions
    left_out: tuple[str, ...]


PUBLIC_SETS = (
    PublicSet(
        "open-source",
        MsaOptions(),
        ("cross-program prefetch",),
    ),
    PublicSet(
        "llama2-70b",
        LLAMA2_70B,
        ("cross-program prefetch", "memory-bound loop optimizer", "19,592 KiB of scoped VMEM"),
    ),
)
"""All sets that are public as a whole; the options of libtpu itself are not."""
