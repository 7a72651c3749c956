"""What is asked of PyTorch's CUDA, with something in its place that writes it down; kernels run on the CPU."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch

from memplace_env.device.bench import Bench
from memplace_env.device.commands import Stream
from memplace_env.device.cuda import WARM, CudaDevice
from memplace_env.device.timing import timed
from memplace_env.errors import ExecutionError
from tests.execution.models import convolutional, task_of
from tests.execution.test_executor import game_plan


class FakeCuda:
    """Takes the place of `torch.cuda`; `fails` says whether a capture ends in an error."""

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
        self.log.append(("finish",))

    @contextmanager
    def stream(self, stream):
        before, self.current = self.current, stream
        yield
        self.current = before

    @contextmanager
    def graph(self, graph, stream):
        self.log.append(("capture", str(stream)))
        self.current = stream
        yield
        if self.fails:  # and leaves its stream behind, as PyTorch does
            raise RuntimeError("operation not permitted when stream is capturing")
        self.current = "default"
        self.log.append(("captured",))


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
        self.cuda.log.append(("record", stream.name, self.number, self.options))

    def elapsed_time(self, other):
        return 1000.0 * (other.number - self.number)


class _Graph:
    def __init__(self, cuda):
        self.cuda = cuda

    def replay(self):
        self.cuda.log.append(("replay", str(self.cuda.current)))


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda()
    for name in ("Stream", "Event", "CUDAGraph", "graph", "stream", "current_stream", "set_stream", "synchronize",
                 "get_device_name"):  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, getattr(fake, name))
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


def test_streams_and_events(cuda, device):
    mark = device.mark(Stream.COMPUTE)
    device.wait(Stream.COPY, mark)
    first, last = device.clock(Stream.COMPUTE), device.clock(Stream.COMPUTE)
    timed = {"enable_timing": True, "external": False}
    assert cuda.log == [
        ("record", "stream 1", mark.number, {}),
        ("wait", "stream 2", mark.number),
        ("record", "stream 1", first.number, timed),
        ("record", "stream 1", last.number, timed),
    ]
    assert device.seconds(first, last) == 1.0


@pytest.fixture
def _as_before():
    yield
    torch.backends.cuda.matmul.fp32_precision = "none"
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.fp32_precision = "none"


def switches() -> tuple[str, str, str]:
    """What PyTorch's newer switches say."""
    backends = torch.backends
    return backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision, backends.cudnn.rnn.fp32_precision


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


def test_the_stream_of_ops_is_kept_busy_while_the_host_starts_what_is_timed(cuda, device, monkeypatch):
    product = torch.mm
    monkeypatch.setattr(
        torch, "mm", lambda *of, out: cuda.log.append(("busy", str(cuda.current))) or product(*of, out=out)
    )
    device._busy, device._product = torch.ones(2, 2), torch.ones(2, 2)
    timed(device, lambda: cuda.log.append(("play",)))
    assert [entry[:2] for entry in cuda.log] == [
        ("busy", "stream 1"), ("record", "stream 1"), ("play",), ("record", "stream 1"), ("finish",)
    ]  # fmt: skip


def test_what_can_be_captured_is_replayed(cuda, device):
    clocks = []
    replay = device.replay(lambda: clocks.append(device.clock(Stream.COMPUTE)))
    assert replay.captured
    assert len(clocks) == WARM + 1
    assert [clock.options["external"] for clock in clocks] == [False] * WARM + [True]
    kinds = [entry[0] for entry in cuda.log]
    assert kinds == ["record"] * WARM + ["finish", "capture", "record", "captured", "finish"]
    cuda.log.clear()
    replay.play()
    assert cuda.log == [("replay", "stream 1")]
    assert not device.clock(Stream.COMPUTE).options["external"], "a clock outside of a graph"


def test_what_cannot_be_captured_is_issued_anew(cuda, device):
    cuda.fails = True
    issued = []
    replay = device.replay(lambda: issued.append(device.clock(Stream.COMPUTE).options["external"]))
    assert not replay.captured
    assert cuda.current == "default", "the stream of the capture is not left behind"
    replay.play()
    assert issued == [False] * WARM + [True, False]
    cuda.log.clear()
    cuda.fails = False
    assert not device.replay(lambda: None).captured
    assert [entry[0] for entry in cuda.log] == ["finish"], "what a failed capture leaves behind is not known"


def test_a_capture_that_is_not_wanted_is_not_tried(cuda, device):
    assert not device.replay(lambda: None, capture=False).captured
    assert [entry[0] for entry in cuda.log] == ["finish"]


@pytest.mark.parametrize(("fast", "where"), [(True, "a GPU has"), (False, "The host can pin")])
def test_memory_that_is_not_there(cuda, monkeypatch, fast, where):
    def none(*size, **options):
        assert options.get("pin_memory", False) != fast
        raise RuntimeError("out of memory")

    device = CudaDevice(0)
    monkeypatch.setattr(torch, "empty", none)
    with pytest.raises(ExecutionError, match=f"{where} no 1,000 bytes for an arena; take a smaller model or batch"):
        device.arena(1000, fast=fast)


def test_a_plan_on_it(cuda, device, tmp_path):
    """Nothing is captured here, as the fake has no graphs; ops and copies run when they are issued."""
    cuda.fails = True
    bench = Bench(task_of(convolutional(tmp_path / "small.onnx")), device)
    for seed in range(3):
        plan = game_plan(bench.task, seed)
        cuda.log.clear()
        timing = bench.measure(plan, runs=2)
        assert not timing.captured
        assert np.isfinite(timing.op_s).all()
        waits = [entry for entry in cuda.log if entry[0] == "wait"]
        assert bool(waits) == bool(len(plan.transfers))
        assert {entry[1] for entry in waits} <= {"stream 1", "stream 2"}
