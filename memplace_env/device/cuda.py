"""A GPU that PyTorch reaches through CUDA."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import torch
from torch import Tensor

from memplace_env.device.commands import Stream
from memplace_env.device.protocol import Replay, Work
from memplace_env.errors import ExecutionError
from memplace_env.execution.schedule import Copy, Run

WARM: Final = 3
"""Runs before a capture, in which kernels are loaded and choose their workspaces."""
_BUSY: Final = 4096
"""Rows and columns of a product that takes milliseconds, longer by far than a host needs to start a graph."""


def open_cuda() -> CudaDevice:
    """The first GPU.

    Raises:
        ExecutionError: there is none.
    """
    if not torch.cuda.is_available():
        built = "" if torch.version.cuda else " (this PyTorch was built without CUDA)"
        raise ExecutionError(
            f"No CUDA device can be reached{built}; run this on a machine with an NVIDIA GPU, its driver, and a build "
            "of PyTorch for it."
        )
    if not hasattr(torch.backends.cudnn, "conv"):
        raise ExecutionError(
            f"PyTorch {torch.__version__} cannot be told how exact products are; install 2.9 or newer."
        )
    return CudaDevice(0)


class CudaDevice:
    """A `Device`: arenas in its memory and in pinned host memory, two streams, events, graphs.

    Single-precision products keep all their bits, as on the CPU: TensorFloat-32 is switched off while ops are issued,
    in products and convolutions, unless the environment variable TORCH_ALLOW_TF32_CUBLAS_OVERRIDE forces it.

    Args:
        index: which GPU.
    """

    def __init__(self, index: int) -> None:
        self.name = torch.cuda.get_device_name(index)
        self.torch_name = f"cuda:{index}"
        self._streams = {stream: torch.cuda.Stream(index) for stream in Stream}  # type: ignore[no-untyped-call]
        self._busy, self._product = (torch.zeros((_BUSY, _BUSY), device=self.torch_name) for _ in range(2))
        self._capturing, self._captures = False, True

    def arena(self, size: int, *, fast: bool) -> Tensor:
        """uint8[size], in the device or in pinned host memory."""
        try:
            if fast:
                return torch.empty(size, dtype=torch.uint8, device=self.torch_name)
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
        except RuntimeError as error:  # out of memory, of either kind
            where = f"{self.name} has" if fast else "The host can pin"
            raise ExecutionError(f"{where} no {size:,} bytes for an arena; take a smaller model or batch.") from error

    def issue(self, stream: Stream, work: Work, step: Run | Copy | None = None) -> None:
        """Run the work's operations on a stream."""
        with self._on(stream), torch.no_grad(), _all_bits():
            work()

    def mark(self, stream: Stream) -> torch.cuda.Event:
        """An event without a time."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._streams[stream])
        return event

    def wait(self, stream: Stream, mark: Any) -> None:
        """Let a stream wait for an event."""
        self._streams[stream].wait_event(mark)

    def clock(self, stream: Stream) -> torch.cuda.Event:
        """An event with a time; within a captured graph one that each replay sets anew."""
        event = torch.cuda.Event(enable_timing=True, external=self._capturing)  # type: ignore[no-untyped-call]
        event.record(self._streams[stream])
        return event

    def seconds(self, first: Any, last: Any) -> float:
        """Between two events."""
        return float(first.elapsed_time(last)) * 1e-3

    def finish(self) -> None:
        """Wait for the whole device."""
        torch.cuda.synchronize(self.torch_name)

    def hold(self, stream: Stream) -> None:
        """Give a stream a product to compute, of numbers that nobody needs."""
        with self._on(stream), torch.no_grad(), _all_bits():
            torch.mm(self._busy, self._busy, out=self._product)

    def replay(self, issue: Work, *, capture: bool = True) -> Replay:
        """A captured CUDA graph, or, where a kernel cannot be captured, the work issued anew each time.

        After a capture that failed no other is tried: what it leaves in PyTorch's allocator is not known.
        """
        for _ in range(WARM):
            issue()
        self.finish()
        graph = self._captured(issue) if capture and self._captures else None
        if graph is None:
            return Replay(issue, captured=False)

        def play() -> None:
            with self._on(Stream.COMPUTE):
                graph.replay()

        return Replay(play, captured=True)

    def _captured(self, issue: Work) -> torch.cuda.CUDAGraph | None:
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.torch_name)
        self._capturing = True
        try:
            with torch.cuda.graph(graph, stream=self._streams[Stream.COMPUTE]):
                issue()
        except (RuntimeError, ExecutionError):  # of an op, which could be issued a moment ago
            torch.cuda.set_stream(before)  # the other one may be left behind
            self._captures = False
            return None
        finally:
            self._capturing = False
            self.finish()
        return graph

    def _on(self, stream: Stream) -> AbstractContextManager[object]:
        context: AbstractContextManager[object] = torch.cuda.stream(self._streams[stream])
        return context


@contextmanager
def _all_bits() -> Iterator[None]:
    """Products of single precision with all their bits, whatever the user's switches say.

    PyTorch has older and newer switches and refuses products while they disagree: the older one is used unless the
    newer one was.
    """
    backends: Any = torch.backends
    kinds = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    before = [kind.fp32_precision for kind in kinds]
    older = _older_switch()
    try:
        if older is not None:
            torch.set_float32_matmul_precision("highest")
        for kind in kinds[older is not None :]:
            kind.fp32_precision = "ieee"
        yield
    finally:
        if older is not None:
            torch.set_float32_matmul_precision(older)
        for kind, precision in zip(kinds, before, strict=True):
            kind.fp32_precision = precision


def _older_switch() -> str | None:
    """Of matrix products; None if the newer one says something else."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None
