"""A GPU that PyTorch reaches through CUDA."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Final

import torch
from torch import Tensor

from memplace_env._lib.collection import collection_paused
from memplace_env._lib.errors import ExecutionError
from memplace_env._lib.foreign import shown
from memplace_env.backends.cuda.device_protocol import CapturedWork, Stream, Work
from memplace_env.backends.ort.plan_steps import CopyTensor, RunOp

WARM: Final = 3
"""Runs before a capture, in which kernels are loaded and choose their workspaces. Our choice."""
_BUSY: Final = 4096
"""Rows and columns of a product that takes milliseconds, much longer than a host needs to start a graph."""
_PRODUCTS: Final = 32
"""Most such products in a row, about 0.1 s, for hosts that need longer."""
_REASON: Final = 300
"""Characters shown of PyTorch's message on a failure, which can fill a screen."""


def require_cuda() -> None:
    """Require a GPU and a recent PyTorch, without starting CUDA, so that the process can still be forked.

    Raises:
        ExecutionError: there is no GPU, or PyTorch is too old.
    """
    if not torch.cuda.device_count():
        built = "" if torch.version.cuda else " (this PyTorch was built without CUDA)"
        raise ExecutionError(
            f"No CUDA device can be reached{built}; run this on a machine with an NVIDIA GPU, its driver, and a build "
            "of PyTorch for it."
        )
    if not hasattr(torch.backends.cudnn, "conv"):
        raise ExecutionError(
            f"PyTorch {torch.__version__} has no switch for the precision of convolutions; install 2.9 or newer."
        )


def open_cuda() -> CudaDevice:
    """Open the first GPU.

    Raises:
        ExecutionError: there is none, or it cannot be used.
    """
    require_cuda()
    return CudaDevice(0)


class CudaDevice:
    """A `Device`: arenas in its memory and in pinned host memory, two streams, events, graphs.

    Single-precision products keep all their bits, as on the CPU: TensorFloat-32 is switched off while ops are issued,
    in products and convolutions, unless the environment variable TORCH_ALLOW_TF32_CUBLAS_OVERRIDE forces it.

    Args:
        index: number of the GPU.

    Raises:
        ExecutionError: it cannot be used, with PyTorch's reason.
    """

    _captures: ClassVar[bool] = True
    _failed: ClassVar[torch.cuda.CUDAGraph | None] = None
    """Kept alive per process, as PyTorch's allocator is: a failed capture leaves references to its graph there."""

    def __init__(self, index: int) -> None:
        self.torch_name = f"cuda:{index}"
        self._capturing, self._products = False, 1
        try:
            self.name = torch.cuda.get_device_name(index)
            self._streams = {stream: torch.cuda.Stream(index) for stream in Stream}  # type: ignore[no-untyped-call]
            self._busy, self._product = (torch.zeros((_BUSY, _BUSY), device=self.torch_name) for _ in range(2))
        except RuntimeError as error:  # such as a driver that is too old, or a card that is full
            raise ExecutionError(f"The GPU {self.torch_name} cannot be used ({shown(error, _REASON)}).") from error

    def arena(self, size: int, *, fast: bool) -> Tensor:
        """Allocate uint8[size], in the device or in pinned host memory."""
        try:
            if fast:
                return torch.empty(size, dtype=torch.uint8, device=self.torch_name)
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)
        except RuntimeError as error:
            if fast and not isinstance(error, torch.cuda.OutOfMemoryError):
                raise ExecutionError(f"{self.name} gives no memory ({shown(error, _REASON)}).") from error
            where = f"{self.name} has" if fast else "The host can pin"
            raise ExecutionError(f"{where} no {size:,} bytes for an arena; take a smaller model or batch.") from error

    def issue(self, stream: Stream, work: Work, step: RunOp | CopyTensor | None = None) -> None:
        """Run the work's operations on a stream."""
        with self._on(stream), torch.no_grad(), _all_bits():
            work()

    def mark(self, stream: Stream) -> torch.cuda.Event:
        """Record an event without a time."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(self._streams[stream])
        return event

    def wait(self, stream: Stream, mark: Any) -> None:
        """Let a stream wait for an event."""
        self._streams[stream].wait_event(mark)

    def clock(self, stream: Stream) -> torch.cuda.Event:
        """Record an event with a time; within a captured graph one that each replay sets anew."""
        event = torch.cuda.Event(enable_timing=True, external=self._capturing)  # type: ignore[no-untyped-call]
        event.record(self._streams[stream])
        return event

    def seconds(self, first: Any, last: Any) -> float:
        """Return the seconds between two events."""
        return float(first.elapsed_time(last)) * 1e-3

    def finish(self) -> None:
        """Wait for the whole device."""
        torch.cuda.synchronize(self.torch_name)

    def hold(self, stream: Stream) -> None:
        """Keep a stream busy with products whose results are not used."""
        with self._on(stream), torch.no_grad(), _all_bits():
            for _ in range(self._products):
                torch.mm(self._busy, self._busy, out=self._product)

    def held(self, first: Any) -> bool:
        """Return whether an event has not passed yet; else later holds have twice as many products."""
        if self._products == _PRODUCTS or not first.query():
            return True
        self._products *= 2
        return False

    def replay(self, issue: Work, *, capture: bool = True) -> CapturedWork:
        """Return a captured CUDA graph, or, if a kernel cannot be captured, the work issued anew each time.

        After a failed capture, which emits a warning, no other is tried in this process: its effects on PyTorch's
        allocator are unknown.
        """
        for _ in range(WARM):
            issue()
        self.finish()
        graph = self._captured(issue) if capture and self._captures else None
        if graph is None:
            return CapturedWork(issue, captured=False)

        def play() -> None:
            with self._on(Stream.COMPUTE):
                graph.replay()

        return CapturedWork(play, captured=True)

    def _captured(self, issue: Work) -> torch.cuda.CUDAGraph | None:
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream(self.torch_name)
        self._capturing = True
        try:
            # Freeing pinned memory would break a capture.
            with collection_paused(), torch.cuda.graph(graph, stream=self._streams[Stream.COMPUTE]):
                issue()
        except (RuntimeError, ExecutionError) as error:  # of an op, which could be issued a moment ago
            torch.cuda.set_stream(before)  # the other one may be left behind
            CudaDevice._captures, CudaDevice._failed = False, graph
            # PyTorch cannot end such a capture either, and says so in place of why; an op's own error says that.
            reason = error if isinstance(error, ExecutionError) else error.__context__ or error
            warnings.warn(
                f"Work for {self.name} cannot be captured as a graph ({shown(reason, _REASON)}), so that all of it is "
                "issued anew each time from now on.",
                RuntimeWarning,
                stacklevel=2,
            )
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
    """Compute single-precision products with all bits whatever the user's switches are, by the same kernels each time.

    PyTorch has older and newer switches and refuses products while they disagree: the older one is set unless the user
    set the newer one.
    """
    backends: Any = torch.backends
    kinds = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn)
    before, tries = [kind.fp32_precision for kind in kinds], backends.cudnn.benchmark
    older = _older_switch()
    try:
        backends.cudnn.benchmark = False
        if older is not None:
            torch.set_float32_matmul_precision("highest")
        for kind in kinds[older is not None :]:
            kind.fp32_precision = "ieee"
        yield
    finally:
        backends.cudnn.benchmark = tries
        if older is not None:
            torch.set_float32_matmul_precision(older)
        for kind, precision in zip(kinds, before, strict=True):
            kind.fp32_precision = precision


def _older_switch() -> str | None:
    """Return the older switch of matrix products; None if the newer one disagrees."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None
