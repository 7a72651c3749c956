"""`CudaDevice` with a fake in the place of `torch.cuda`; kernels run on the CPU."""

import gc
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch

from memplace_env._lib.errors import ExecutionError
from memplace_env.backends.cuda import cuda as cuda_module
from memplace_env.backends.cuda.bench import Bench
from memplace_env.backends.cuda.cuda import WARM, CudaDevice, open_cuda, require_cuda
from memplace_env.backends.cuda.device_protocol import Stream
from tests.backends.ort.models import convolutional, task_of
from tests.backends.ort.test_executor import game_plan

CANNOT = (
    r"^Work for a GPU cannot be captured as a graph \({}\), so that all of it is issued anew each time from now on\.$"
)


class FakeCuda:
    """Takes the place of `torch.cuda`; `fails` says whether a capture ends in an error. No clock has passed already."""

    def __init__(self) -> None:
        self.log: list[tuple] = []
        self.current, self.fails, self.streams = "default", False, 0
        self.CUDAGraph = lambda: _Graph(self)
        self.Event = lambda **options: _Event(self, **options)

    def Stream(self, index):  # noqa: N802
        self.streams += 1
        return _Stream(self, f"stream {self.streams}")

    def get_device_name(self, index):
        return "a GPU"

    def current_stream(self, device):
        return self.current

    def set_stream(self, stream):
        self.current = stream

    def synchronize(self, device):
        pass

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextmanager
    def graph(self, graph, stream):
        self.current = stream
        try:
            yield
        finally:
            if self.fails:  # and leaves its stream behind, as PyTorch does
                raise RuntimeError("the capture\n  cannot be ended")
        self.current = "default"


class _Stream:
    def __init__(self, cuda, name):
        self.cuda, self.name = cuda, name

    def __str__(self):
        return self.name

    def wait_event(self, event):
        self.cuda.log.append(("wait", self.name, event.number))


class _Event:
    made = 0

    def __init__(self, cuda, **options):
        _Event.made += 1
        self.cuda, self.options, self.number = cuda, options, _Event.made

    def record(self, stream):
        pass

    def query(self):
        return False

    def elapsed_time(self, other):
        return 1000.0 * (other.number - self.number)


class _Graph:
    def __init__(self, cuda):
        self.cuda = cuda

    def replay(self):
        pass


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    for name in ("Stream", "Event", "CUDAGraph", "graph", "stream", "current_stream", "set_stream", "synchronize",
                 "get_device_name"):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
    monkeypatch.setattr(CudaDevice, "_captures", True)
    monkeypatch.setattr(CudaDevice, "_failed", None)
    monkeypatch.setattr(cuda_module, "_BUSY", 2)
    zeros = torch.zeros
    monkeypatch.setattr(torch, "zeros", lambda *size, device=None: zeros(*size))
    return fake


@pytest.fixture
def device(cuda, monkeypatch):
    """The real thing but for its memory, which is the CPU's."""
    made = CudaDevice(0)
    assert (made.name, made.torch_name) == ("a GPU", "cuda:0")
    made.torch_name = "cpu"
    monkeypatch.setattr(made, "arena", lambda size, *, fast: torch.empty(size, dtype=torch.uint8))
    return made


@pytest.fixture
def _as_before():
    yield
    torch.backends.cuda.matmul.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.fp32_precision = "none"


def switches() -> tuple[str, str, str]:
    """Stand in for PyTorch's newer switches."""
    backends = torch.backends
    return backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision, backends.cudnn.rnn.fp32_precision


@pytest.mark.parametrize("tries", [False, True])
def test_kernels_are_not_chosen_by_trying_them(cuda, device, monkeypatch, tries):
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", tries)
    seen = []
    device.issue(Stream.COMPUTE, lambda: seen.append(torch.backends.cudnn.benchmark))
    assert seen == [False]
    assert torch.backends.cudnn.benchmark == tries


@pytest.mark.usefixtures("_as_before")
@pytest.mark.parametrize("said", ["nothing", "older", "newer"])
def test_work_runs_on_its_stream_with_all_bits(cuda, device, said):
    if said == "older":
        torch.set_float32_matmul_precision("high")
    elif said == "newer":
        torch.backends.cuda.matmul.fp32_precision = "tf32"
    before, seen = switches(), []
    device.issue(Stream.COPY, lambda: seen.append((str(cuda.current), switches(), torch.is_grad_enabled())))
    assert seen == [("stream 2", ("ieee", "ieee", "ieee"), False)]
    assert switches() == before
    assert cuda.current == "default"
    if said != "newer":
        assert torch.get_float32_matmul_precision() == ("high" if said == "older" else "highest")


def test_what_can_be_captured_is_replayed(cuda, device):
    clocks = []
    replay = device.replay(lambda: clocks.append(device.clock(Stream.COMPUTE)))
    assert replay.captured
    assert len(clocks) == WARM + 1
    assert [clock.options["external"] for clock in clocks] == [False] * WARM + [True]
    replay.play()
    assert len(clocks) == WARM + 1, "the graph is played, not the work issued"
    assert not device.clock(Stream.COMPUTE).options["external"], "a clock outside of a graph"


@pytest.mark.parametrize("before", [True, False])
def test_nothing_is_collected_during_a_capture(cuda, device, before):
    """Garbage could be memory whose release a capture does not survive."""
    seen, enabled = [], gc.isenabled()
    try:
        (gc.enable if before else gc.disable)()
        device.replay(lambda: seen.append(gc.isenabled()))
        assert seen == [before] * WARM + [False]
        assert gc.isenabled() == before
        cuda.fails = True
        with pytest.warns(RuntimeWarning, match="cannot be captured"):
            device.replay(lambda: None)
        assert gc.isenabled() == before
    finally:
        (gc.enable if enabled else gc.disable)()


def test_what_cannot_be_captured_is_issued_anew(cuda, device):
    cuda.fails = True
    issued = []
    with pytest.warns(RuntimeWarning, match=CANNOT.format("the capture cannot be ended")):
        replay = device.replay(lambda: issued.append(device.clock(Stream.COMPUTE).options["external"]))
    assert not replay.captured
    assert cuda.current == "default", "the stream of the capture is not left behind"
    replay.play()
    assert issued == [False] * WARM + [True, False]
    cuda.fails = False
    assert not device.replay(lambda: None).captured, "what a failed capture leaves behind is not known"
    assert not CudaDevice(0).replay(lambda: None).captured, "nor where: it is PyTorch's, not the device's"
    assert isinstance(CudaDevice._failed, _Graph), "what is left may point to it"


@pytest.mark.parametrize("ends", [True, False])
def test_the_reason_is_told(cuda, device, ends):
    """PyTorch says that the capture cannot be ended; why is what the op said."""
    cuda.fails = not ends

    def issue():
        if device._capturing:
            try:
                raise RuntimeError("CUDA error:\n  not permitted")
            except RuntimeError as error:
                raise ExecutionError("Op 3 (sort) fails: not\npermitted " + "x " * 1000) from error

    with pytest.warns(RuntimeWarning, match=CANNOT.format(r"Op 3 \(sort\) fails: not permitted x x .*")) as caught:
        device.replay(issue)
    assert len(str(caught[0].message)) < 500


def test_a_capture_that_is_not_wanted_is_not_tried(device):
    assert not device.replay(lambda: None, capture=False).captured


@pytest.mark.parametrize(("fast", "where"), [(True, "a GPU has"), (False, "The host can pin")])
def test_memory_that_is_not_there(cuda, monkeypatch, fast, where):
    def none(*size, **options):
        assert options.get("pin_memory", False) != fast
        raise torch.cuda.OutOfMemoryError if fast else RuntimeError("out of memory")

    device = CudaDevice(0)
    monkeypatch.setattr(torch, "empty", none)
    with pytest.raises(ExecutionError, match=f"{where} no 1,000 bytes for an arena; take a smaller model or batch"):
        device.arena(1000, fast=fast)


def test_a_device_that_is_broken_is_not_full(cuda, monkeypatch):
    def broken(*size, **options):
        raise RuntimeError("CUDA error: an illegal memory access\nwas encountered")

    device = CudaDevice(0)
    monkeypatch.setattr(torch, "empty", broken)
    with pytest.raises(
        ExecutionError, match=r"^a GPU gives no memory \(.* an illegal memory access was encountered\)\.$"
    ):
        device.arena(1000, fast=True)


@pytest.mark.parametrize("fails", ["get_device_name", "Stream"])
def test_a_device_that_cannot_be_used(cuda, monkeypatch, fails):
    def old(*of):
        raise RuntimeError("The NVIDIA driver on your system\nis too old")

    monkeypatch.setattr(torch.cuda, fails, old)
    with pytest.raises(ExecutionError, match=r"^The GPU cuda:0 cannot be used \(The NVIDIA driver .* is too old\)\.$"):
        CudaDevice(0)


def test_what_is_required_is_there_before_anything_is_opened(cuda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    require_cuda()
    assert cuda.streams == 0
    assert open_cuda().name == "a GPU"
    monkeypatch.setattr(torch.backends, "cudnn", object())
    for asks in (require_cuda, open_cuda):
        with pytest.raises(
            ExecutionError, match=r"has no switch for the precision of convolutions; install 2\.9 or newer"
        ):
            asks()
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    for asks in (require_cuda, open_cuda):
        with pytest.raises(ExecutionError, match="No CUDA device can be reached"):
            asks()


def test_a_plan_on_it(cuda, device, tmp_path):
    """Nothing is captured here, as the fake has no graphs; ops and copies run when they are issued."""
    cuda.fails = True
    bench = Bench(task_of(convolutional(tmp_path / "small.onnx")), device)
    for seed in range(3):
        plan = game_plan(bench.task, seed)
        cuda.log.clear()
        with pytest.warns(RuntimeWarning, match="cannot be captured") if not seed else nullcontext():
            timing = bench.measure(plan, runs=2)
        assert not timing.captured
        assert np.isfinite(timing.op_s).all()
        waits = [entry for entry in cuda.log if entry[0] == "wait"]
        assert bool(waits) == bool(len(plan.transfers))
        assert {entry[1] for entry in waits} <= {"stream 1", "stream 2"}
