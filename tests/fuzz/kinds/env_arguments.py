"""Hostile arguments of `gym.make`, `gym.make_vec`, `reset` and `step`, on tiny programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from onnx import TensorProto, helper

import memplace_env  # noqa: F401
from memplace_env.envs.malloc_game import MallocGameEnv, MallocGameVectorEnv
from memplace_env.envs.one_shot import OneShotEnv, OneShotVectorEnv
from tests.fuzz import Wrong, accepted

NAME = "arguments of environments"
CASES = 10_000

_TINY = "synthetic:chain?ops=5"
_COPIES = 3


class _Hostile:
    """An object whose every protocol fails."""

    def __repr__(self) -> str:
        raise RuntimeError("no picture of me")

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("no array of me")

    def __len__(self) -> int:
        raise RuntimeError("no length of me")


_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**40, 2**63, 2**64, 2**64 - 1, 10**5000, -(10**5000), 0.0, 1.0, -1.5,
    float("nan"), float("inf"), 1j, "", "a", "flat", "dict", "speedup", "energy", "percent", "nnp-i", "tpu-v4i",
    "rgb_array", "ansi",
    "x" * 100_000, "\x1b[2J\a", "\0", "ü/\ud800", "../" * 2000, "/dev/null", "/", b"bytes", [], [0], [1, None, 3],
    [1, 2, -3], [[1], [2, 3]], [None] * 3, (), {}, {"reset_mask": [True] * 3}, {"reset_mask": np.zeros(3, bool)},
    {"a": 1}, {"batch": "x"}, {1: 2}, set(), np.int8(3), np.int64(-1), np.uint64(2**64 - 1), np.float32(1),
    np.bool_(True), np.array(3), np.array([]), np.zeros(3, int), np.zeros(10, int), np.full(3, np.nan),
    np.zeros((3, 10), int),
    np.zeros((3, 10)), np.array([1, "a", None], dtype=object), np.array(["a"] * 3), np.zeros(3, "m8[s]"),
    np.zeros(10, "M8[s]"), np.zeros(3, [("a", int)]), np.full(10, 2**63, np.uint64), np.full((3, 10), 9),
    np.ma.masked_array(np.zeros(10, int), mask=True), np.zeros(3, complex), np.iinfo(np.int64).min, range(3), object(),
    _Hostile(), _Hostile, len, Exception, "NextStep", "SameStep", "Disabled", "roofline", "tiled", "builtin",
)  # fmt: skip
_KEYS = (
    "accelerator", "simulator", "batch", "dims", "dtype", "fusion", "costs", "observation", "render_mode", "reward",
    "nonsense", "autoreset_mode", "copy", "num_envs", "max_episode_steps",
)  # fmt: skip
_SPECS = ("chain", "diamond", "fan-out", "random", "matmul", "", "nothing")
_SETTINGS = ("ops", "seed", "hot", "size", "factorisation", "dtype", "unknown", "")
_NUMBERS = (
    "0", "-1", "1", "5", "6", "7", "1e3", "nan", "inf", "0x5", "1_0", "٣", "", " 5 ", "10" * 10, "9" * 400, "9" * 5000,
    "100001", "0.5", "strassen", "int8", "\x1b", "%00", "a" * 3000,
)  # fmt: skip
_OWN: dict[type[Any], str] = {OneShotEnv: "nnp-i", MallocGameEnv: "tpu-v4i"}
_VECTORS: dict[type[Any], type[Any]] = {OneShotEnv: OneShotVectorEnv, MallocGameEnv: MallocGameVectorEnv}


class Prepared(NamedTuple):
    """A single environment and a vector environment of both formulations, and a model of one layer."""

    envs: dict[type[Any], tuple[Any, Any]]
    model: str


def prepare(folder: Path) -> Prepared:
    """Make and play the environments once, so that no case waits for kernels."""
    envs = {}
    for kind, chip in _OWN.items():
        envs[kind] = kind(_TINY, chip), _VECTORS[kind](_COPIES, workload=_TINY, accelerator=chip)
        for env in envs[kind]:
            _play(env)
        _play(kind(_TINY, chip, observation="flat"))
    return Prepared(envs, _model(folder / "tiny.onnx"))


def case(prepared: Prepared, rng: np.random.Generator, folder: Path) -> bool:
    """Make one call with one or two wrong values; accepted environments must work."""
    del folder
    kind = (OneShotEnv, MallocGameEnv)[rng.integers(2)]
    env = prepared.envs[kind][rng.integers(2)]
    ways: tuple[Callable[..., None], ...] = (_reset, _step, _count, _spec, _workload)
    way = rng.integers(len(ways) + 2)
    if way < len(ways):
        ways[way](kind, env, rng)
    else:
        _make(kind, env, rng, _TINY if way == len(ways) else prepared.model)
    return True


def _model(path: Path) -> str:
    """Return an ONNX file with one product, whose batch is a symbolic dim."""
    shapes = {"x": ["batch", 8], "w": [8, 4], "y": ["batch", 4]}
    x, w, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "tiny", [x, w], [y])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString())
    return str(path)


def _value(rng: np.random.Generator) -> Any:
    return _VALUES[rng.integers(len(_VALUES))]


def _reset(kind: type[Any], env: Any, rng: np.random.Generator) -> None:
    if rng.random() < 0.3:
        env.close()
    options = _value(rng) if rng.random() < 0.5 else None
    env.reset(seed=_value(rng), options=options)


def _step(kind: type[Any], env: Any, rng: np.random.Generator) -> None:
    if rng.random() < 0.5:
        env.reset()
    action = _value(rng)
    if rng.random() < 0.5:
        form = env.action_space.sample()
        action = (np.asarray(form) + rng.integers(-3, 4, np.shape(form))).astype(rng.choice(["i8", "f8", "u1", "O"]))
    before = None if kind is OneShotEnv else _states(env).copy()
    try:
        env.step(action)
    except ValueError:
        if before is not None and not np.array_equal(_states(env), before):
            raise Wrong("a refused action changed the state") from None
        raise


def _states(env: Any) -> Any:
    return np.stack(env.states) if hasattr(env, "states") else env.get_state()


def _make(kind: type[Any], env: Any, rng: np.random.Generator, workload: str) -> None:
    given = {_KEYS[rng.integers(len(_KEYS) - 2)]: _value(rng) for _ in range(int(rng.integers(1, 3)))}
    vector = hasattr(env, "num_envs")
    known = {"workload": workload, "batch": None if workload == _TINY else 2, "accelerator": _OWN[kind], **given}
    names = [
        *_KEYS[:10],
        "workload",
        *(["autoreset_mode"] if vector else []),
    ]
    known = {key: value for key, value in known.items() if key in names}
    _play(_VECTORS[kind](2, **known) if vector else kind(**known))


def _count(kind: type[Any], env: Any, rng: np.random.Generator) -> None:
    number = _value(rng)
    if isinstance(number, int | np.integer) and 1000 < number < 2**40:
        number = 2**40
    env_id = "MemPlace-v0" if kind is OneShotEnv else "MallocGame-v0"
    make = (
        lambda: _VECTORS[kind](number, workload=_TINY),
        lambda: gym.make_vec(env_id, num_envs=number, workload=_TINY, accelerator=_OWN[kind]),
    )
    _play(make[rng.integers(2)]())


def _spec(kind: type[Any], env: Any, rng: np.random.Generator) -> None:
    settings = [
        f"{_SETTINGS[rng.integers(len(_SETTINGS))]}={_NUMBERS[rng.integers(len(_NUMBERS))]}"
        for _ in range(int(rng.integers(4)))
    ]
    begins = ("synthetic:", "synthetic://[", "SYNTHETIC:", "synthetic:\n", "synthetic::")
    begin = begins[0] if rng.random() < 0.9 else begins[rng.integers(len(begins))]
    workload = f"{begin}{_SPECS[rng.integers(len(_SPECS))]}?{'&'.join(settings)}"
    _play(kind(workload, "tpu-v4i" if "dtype" in workload or "matmul" in workload else _OWN[kind]))


def _workload(kind: type[Any], env: Any, rng: np.random.Generator) -> None:
    value = _value(rng)
    if isinstance(value, str) and rng.random() < 0.5:
        value += rng.choice([".onnx", ".program", ".tflite", "/", "\0.onnx", "?"])
    _play(kind(value, _OWN[kind]))


def _play(env: Any) -> None:
    """Check that the result is an environment."""
    with accepted():
        seen, _ = env.reset(seed=0)
        if not env.observation_space.contains(seen):
            raise Wrong("an observation outside of its space")
        env.action_space.seed(0)
        for _ in range(3):
            _, reward, over, *_ = env.step(env.action_space.sample())
            if not np.isfinite(reward).all():
                raise Wrong("a reward that is no number")
            if np.any(over):
                break
        env.close()
