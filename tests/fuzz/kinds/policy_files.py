"""Policies, checkpoints and records of training, changed byte by byte, part by part, or replaced."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from memplace_agents.built_in_agents import CHECKPOINT, CHECKPOINT_BYTES, POLICY
from memplace_agents.egrl import EGRL, EGRLConfig
from memplace_agents.learning import safe_files
from memplace_agents.learning.factored_learner import FactoredSettings
from memplace_agents.learning.policy_file import load_policy, save_policy
from memplace_agents.muzero import MuZero, MuZeroConfig
from memplace_agents.plan_gradient import PlanGradient, PlanGradientConfig
from memplace_agents.plan_gradient.in_turn.on_policy_settings import OnPolicySettings
from memplace_agents.registry import agent_spec
from memplace_agents.search.evaluator import GameEvaluator, OneShotEvaluator
from memplace_env.cli.runs import HISTORY, RUN, TrainingJob
from memplace_env.cli.shared_options import LearnerFlags
from memplace_env.envs.malloc_game import MallocGameEnv
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.placement.synthetic import random_dag
from memplace_env.placement.validation import require_valid
from tests.fuzz import Wrong, accepted

NAME = "policies, checkpoints and records of training"
CASES = 3_000

_SCALARS = [None, True, False, 0, -1, 1, 2, 255, 2**31, 2**63, 2**70, 0.5, -0.0, 1e308, -1e308, 1e-320]
_TEXTS = ["", "x", "\x1b[2J", "\ud800", "x" * 10_000, "[" * 5_000, "{}", "9" * 5_000, "../../etc/passwd"]
_LARGE = ("1e999", "9" * 5_000, "NaN", "Infinity", "01", "1.", "[" * 2_000)
"""Text in the place of 0.5."""
_DTYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int8, torch.uint8, torch.bool)


class Subject(NamedTuple):
    """A kind of file.

    Attributes:
        raw: one that is right.
        kind: declared kind; None for JSON.
        content: what it holds.
        read: gives the file to the product; it raises MemPlaceError, or Wrong where something wrong is accepted.
    """

    raw: bytes
    kind: str | None
    content: Any
    read: Callable[[Path], None]


def prepare(folder: Path) -> list[Subject]:
    """A small file of each kind."""
    torch.set_num_threads(1)
    program = random_dag(3, ops=6, largest=60_000_000)
    one_shot, game = OneShotEnv(program, "tpu-v4i"), MallocGameEnv(program, "tpu-v4i")
    at_once = FactoredSettings(least_samples=2, width=4)
    in_turn = OnPolicySettings(envs=2, steps=4, minibatch=4, width=4, table_rate=0.1, imitation=0.1, warm_up=0.5)
    learners: list[tuple[Any, Any, Any]] = [
        (EGRL, EGRLConfig(population=4, elites=1, hidden=4, depth=1, batch=4), one_shot),
        (MuZero, MuZeroConfig(games=2, decisions=3, simulations=2, hidden=4, batch=4), game),
        (PlanGradient, PlanGradientConfig(at_once), one_shot),
        (PlanGradient, PlanGradientConfig(games=at_once), game),
        (PlanGradient, PlanGradientConfig(games_in_turn=in_turn, in_turn=True), game),
    ]
    subjects = []
    for number, (learner, config, env) in enumerate(learners):
        out = folder / f"{number}-{learner.name}"
        learner(config, out=out).solve(env, budget=20)
        subjects += [_policy(learner, config, env, out / POLICY), _checkpoint(learner, config, env, out / CHECKPOINT)]
    return subjects + _records(one_shot, folder / "job")


def case(prepared: list[Subject], rng: np.random.Generator, folder: Path) -> bool:
    """Read one changed file."""
    subject = prepared[rng.integers(len(prepared))]
    path = folder / "file"
    if os.path.lexists(path):  # of an earlier case
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    way = rng.random()
    if way < 0.05:
        _something_else(rng, path)
    elif way < 0.35 or (subject.kind is None and way < 0.5):
        raw = _other_bytes(rng, subject.raw)
        path.write_bytes(raw)
        if subject.kind and raw != subject.raw:
            subject.read(path)
            raise Wrong("a file is accepted in which bytes have changed")
    elif subject.kind is None:
        text = json.dumps(_other_content(rng, subject.content), default=str)
        path.write_text(text.replace("0.5", _LARGE[rng.integers(len(_LARGE))]))
    elif way < 0.55:
        path.write_bytes(_other_header(rng, subject.raw))
    else:
        path.write_bytes(safe_files.encoded(subject.kind, _other_content(rng, subject.content)))
    try:
        subject.read(path)
    finally:
        path.unlink(missing_ok=True)
    return True


def _policy(learner: Any, config: Any, env: Any, path: Path) -> Subject:
    kind = learner.network

    def read(file: Path) -> None:
        policy = load_policy(file, kind)
        if not all(bool(torch.isfinite(weight).all()) for weight in policy.state_dict().values()):
            raise Wrong("weights are accepted that are not finite")
        with accepted():
            save_policy(file, policy)
            load_policy(file, kind)
        learner(config, policy=policy).solve(env, budget=6)

    return Subject(path.read_bytes(), kind.KIND, safe_files.load(path, kind.KIND), read)


def _checkpoint(learner: Any, config: Any, env: Any, path: Path) -> Subject:
    kind = f"{learner.name}-run/2"
    made = OneShotEvaluator if isinstance(env, OneShotEnv) else GameEvaluator

    def read(file: Path) -> None:
        agent = learner(config, out=file.parent, resume=True)
        evaluators = [made(env, budget=24)]
        run = agent.new_run(evaluators, 0)
        agent._restore(run, file, agent._identity(evaluators, 0))
        with accepted():
            for _ in range(2):
                if not run.done:
                    run.step()
            run.state_dict()
            solution = evaluators[0].solution(learner.name, 0)
            if solution.plan is not None:
                require_valid(env.task, solution.plan)

    return Subject(path.read_bytes(), kind, safe_files.load(path, kind, CHECKPOINT_BYTES), read)


def _records(env: Any, out: Path) -> list[Subject]:
    """Return run.json and history.json of a job."""
    spec, learner = agent_spec("egrl"), LearnerFlags(settings=["population=4", "elites=1", "hidden=4", "depth=1"])

    def claimed(budget: int) -> TrainingJob:
        return TrainingJob.claim(spec, learner, {"a": env}, budget, out)

    job = claimed(6)
    job.run(range(1))
    history = job.of_seed(0) / HISTORY
    subjects = []
    for kept, read in ((out / RUN, lambda: claimed(6)), (history, lambda: job._finished(0))):
        raw = kept.read_bytes()

        def tried(file: Path, kept: Path = kept, raw: bytes = raw, read: Callable[[], Any] = read) -> None:
            kept.unlink()
            os.rename(file, kept)
            try:
                read()
            finally:
                if kept.is_dir():
                    kept.rmdir()
                kept.unlink(missing_ok=True)
                kept.write_bytes(raw)

        subjects.append(Subject(raw, None, json.loads(raw), tried))
    return subjects


def _something_else(rng: np.random.Generator, path: Path) -> None:
    """Write a pipe, a device, a folder, a large file, nothing, or a file of torch or pickle."""
    which = int(rng.integers(8))
    if which == 0:
        os.mkfifo(path)
    elif which == 1:
        path.symlink_to("/dev/zero")
    elif which == 2:
        with path.open("wb") as file:
            file.truncate(2**34)
    elif which == 3:
        path.symlink_to(path.name)
    elif which == 4:
        path.write_bytes(rng.bytes(int(rng.integers(200))))
    elif which == 5:
        path.write_bytes(pickle.dumps({"format": "memplace", "content": bytearray(10)}))
    elif which == 6:
        buffer = io.BytesIO()
        torch.save({"weights": torch.zeros(3)}, buffer)
        path.write_bytes(buffer.getvalue())
    else:
        path.write_bytes(len(b"[" * 10**5).to_bytes(8, "little") + b"[" * 10**5)


def _other_bytes(rng: np.random.Generator, raw: bytes) -> bytes:
    """Return the bytes changed, cut off, left out, repeated or inserted."""
    begin, end = np.sort(rng.integers(len(raw) + 1, size=2)).tolist()
    which = int(rng.integers(5))
    if which == 0:
        changed = bytearray(raw)
        for at in rng.integers(min(len(raw), int(rng.choice([16, 2000, len(raw)]))), size=rng.integers(1, 10)):
            changed[at] = rng.integers(256)
        return bytes(changed)
    if which == 1:
        return raw[:end]
    if which == 2:
        return raw[:begin] + raw[end:]
    if which == 3:
        return raw[:end] + raw[begin:]
    return raw[:begin] + rng.bytes(int(rng.integers(1, 40))) + raw[begin:]


def _other_header(rng: np.random.Generator, raw: bytes) -> bytes:
    """Return a changed header, with the checksum that belongs to it."""
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    header["__metadata__"]["sha256"] = "0" * 64
    for _ in range(int(rng.integers(1, 3))):
        name = str(rng.choice(list(header)))
        header[name] = _other_content(rng, header[name])
    text = json.dumps(header, default=str).encode()
    plain = len(text).to_bytes(8, "little") + text + raw[8 + size :]
    return plain.replace(b"0" * 64, hashlib.sha256(plain).hexdigest().encode(), 1)


def _other_content(rng: np.random.Generator, content: Any) -> Any:
    """Return a copy with another part, drawn on the way down from the root."""
    if isinstance(content, dict | list) and content and rng.random() < 0.93:
        parts = dict(content) if isinstance(content, dict) else list(content)
        keys = list(content) if isinstance(content, dict) else list(range(len(content)))
        key: Any = keys[rng.integers(len(keys))]
        how = rng.random()
        if how < 0.03:
            del parts[key]
        elif how < 0.05 and isinstance(parts, list):
            parts.append(content[key])
        elif how < 0.05:
            parts["more"] = content[key]
        else:
            parts[key] = _other_content(rng, content[key])
        return parts
    if isinstance(content, torch.Tensor) and rng.random() < 0.85:
        return _other_tensor(rng, content)
    if isinstance(content, str) and content and rng.random() < 0.6:
        if content.startswith(("{", "[")) and rng.random() < 0.7:
            return json.dumps(_other_content(rng, json.loads(content)), default=str)
        return _other_bytes(rng, content.encode()).decode(errors="replace")
    if type(content) in (int, float) and rng.random() < 0.5:
        return content + int(rng.choice([-1, 1, 2, 10, -content, content]))
    which = int(rng.integers(5))
    if which == 0:
        return _TEXTS[rng.integers(len(_TEXTS))]
    if which == 1:
        return [[], {}, [[]], {"": []}, {"tensor": "none"}][rng.integers(5)]
    if which == 2:
        return torch.zeros([0, 1, 3][rng.integers(3)])
    return _SCALARS[rng.integers(len(_SCALARS))]


def _other_tensor(rng: np.random.Generator, tensor: torch.Tensor) -> torch.Tensor:
    """Return the array with another shape, type or other numbers."""
    which = int(rng.integers(5))
    if which == 0:
        return tensor.to(_DTYPES[rng.integers(len(_DTYPES))])
    if which == 1:
        return tensor[None] if rng.random() < 0.5 else tensor.reshape(-1)[:-1]
    if which == 2 and len(tensor.shape):
        return tensor[: int(rng.integers(len(tensor) + 1))].clone()
    changed = tensor.clone().reshape(-1)
    if not len(changed):
        return torch.zeros(3)
    at = int(rng.integers(len(changed)))
    if tensor.dtype.is_floating_point:
        top = torch.finfo(tensor.dtype).max
        odd = [torch.nan, torch.inf, -torch.inf, top, -top, 1e6, -1e6, 0.0, 1e-30]
        value = odd[rng.integers(len(odd))]
        changed[at if rng.random() < 0.6 else slice(None)] = value
    elif tensor.dtype == torch.bool:
        changed[at] = ~changed[at]
    else:
        limits = torch.iinfo(tensor.dtype)
        changed[at] = int([limits.min, limits.max, 0, 1, 2, 3][rng.integers(6)])
    return changed.reshape(tensor.shape)
