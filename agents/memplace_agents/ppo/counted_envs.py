"""Environments of Stable-Baselines3 whose plans a search's evaluators count."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from memplace_agents.learning.saved_tensors import like
from memplace_agents.saved_values import load_random, random_state
from memplace_agents.search.evaluator import EpisodeEvaluator, OneShotEvaluator
from memplace_env._lib.units import PS
from memplace_env.envs.malloc_game import MallocGameVectorEnv
from memplace_env.envs.many.drawn import LEAST_GAIN, Drawn
from memplace_env.envs.one_shot import OneShotVectorEnv
from memplace_env.envs.registration import Formulation
from memplace_env.envs.steps import StepsVectorEnv
from memplace_env.envs.wrappers import SB3VecEnv
from memplace_env.program.program import Ints


class CountedEnv(SB3VecEnv):
    """Native vector environments that go on where they are: `reset` returns the present observations.

    So a learner that resets at each round's beginning sets nothing back.

    Attributes:
        returns: returns of the episodes that ended since this list was emptied.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.returns: list[float] = []
        self._seen: NDArray[np.float32] = env.reset()[0]
        self._no_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]

    @property
    def n_steps(self) -> int:
        """Steps of an episode, about."""
        vector: Any = self.env
        steps: int = vector.n_steps
        return steps

    @property
    def sizes(self) -> dict[str, int]:
        """Inputs of a policy, decisions of an action, and choices of each, by the names of `ActorCritic`'s options."""
        space: Any = self.action_space
        (inputs,), choices = self._seen.shape[1:], getattr(space, "nvec", [getattr(space, "n", 0)])
        return {"inputs": inputs, "decisions": len(choices), "actions": int(choices[0])}

    def reset(self) -> VecEnvObs:
        """Return the present observations."""
        return self._seen

    @abstractmethod
    def play_greedily(self, model: Any, program: int) -> float:
        """Play and count the plan that takes the likeliest actions, of the program with that number; return its return.

        Args:
            model: PPO or MaskablePPO.
            program: index of the evaluator.
        """

    def begin(self) -> None:
        """Take notice of the plans of the rules, which have been offered."""

    def state_dict(self) -> dict[str, Any]:
        """Return the episodes under way."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""


class CountedAssignments(CountedEnv):
    """One-shot environments side by side; every assignment counts while the budget lasts, later ones earn nothing."""

    def __init__(self, evaluator: OneShotEvaluator, count: int) -> None:
        env, self._evaluator = evaluator.env, evaluator
        super().__init__(OneShotVectorEnv(count, workload=env.task, observation="flat"))

    def step_wait(self) -> VecEnvStepReturn:
        """Evaluate the stored assignments."""
        assert self._actions is not None
        rewards = np.zeros(self.num_envs, dtype=np.float32)
        earned = self._evaluator(self._actions).repaired_reward
        rewards[: len(earned)] = earned
        self.returns += earned.tolist()
        return self._seen, rewards, np.ones(self.num_envs, dtype=bool), self._no_infos

    def play_greedily(self, model: Any, program: int) -> float:
        """Evaluate the likeliest assignment."""
        return float(self._evaluator(model.predict(self._seen[:1], deterministic=True)[0]).repaired_reward.sum())


class CountedEpisodes(CountedEnv):
    """Games, or episodes in steps, side by side; each that ends counts while its budget lasts.

    An environment that draws its programs draws one for each episode. Episodes of all of these count; the plan of the
    search is that of its present program. Where there are several programs, rewards are in percent of the gain of the
    best rule's plan, as gains differ by orders of magnitude.

    Args:
        evaluators: of one formulation; each gets an equal number of the episodes, one at least.
        count: number of episodes.
        seed: seed of the programs drawn.
    """

    def __init__(self, evaluators: Sequence[EpisodeEvaluator], count: int, seed: int) -> None:
        self._evaluators, self._rng = evaluators, np.random.default_rng(seed)
        rows, env = max(count, len(evaluators)), evaluators[0].env
        self._of = np.arange(rows) % len(evaluators)
        # Games are played by the cost arrays: a black box is asked about those that count, and about no others.
        self._problems = [_by_cost_arrays(evaluator) for evaluator in evaluators]
        several = len(evaluators) > 1 or env.programs is not None
        options: dict[str, Any] = {
            "workload": replace(env.task, simulator=None) if env.task.is_black_box else env.task,
            "observation": "flat",
            "autoreset_mode": AutoresetMode.DISABLED,
        }
        options |= {"reward": "percent"} if several else {}
        game = env.formulation is Formulation.GAME
        made: Any = MallocGameVectorEnv(rows, skip_forced=True, **options) if game else StepsVectorEnv(rows, **options)
        self._env, self._several, self._scale = made.env, several, np.ones(rows)
        self._running = np.zeros(rows)
        self._settings: list[dict[str, Any] | None] = [None] * rows
        problems = [self._next(row) for row in range(rows)]
        self._batch = made.batch = self._env.new_batch(problems, [self._env.start_of(one) for one in problems])
        super().__init__(made)

    def _next(self, row: int) -> Any:
        """Return the problem of the row's next episode."""
        env = self._evaluators[self._of[row]].env
        if env.programs is None:
            return self._problems[self._of[row]]
        return self._turn(row, env.programs.draw(self._rng, {}))

    def _turn(self, row: int, setting: Any) -> Any:
        """Return the problem of a drawn setting, to which the row turns."""
        drawn: Drawn[Any] = self._evaluators[self._of[row]].env.drawn(setting)
        self._settings[row], self._scale[row] = setting.options, 1 / drawn.gain
        return drawn.problem

    def begin(self) -> None:
        """Set the units of rewards, where there are several programs."""
        for program, evaluator in enumerate(self._evaluators):
            if self._several and evaluator.env.programs is None:
                gain = 1 - evaluator.best_latency_s / (evaluator.env.problem.all_backing_ps * PS)
                self._scale[self._of == program] = 1 / max(gain, LEAST_GAIN)

    def step_wait(self) -> VecEnvStepReturn:
        """Play the stored actions, count the episodes that end, and begin others."""
        seen, rewards, ended, _, infos = self.env.step(self._actions)
        rewards *= self._scale
        if ended.any():
            which = np.flatnonzero(ended)
            self._count(which, rewards, infos["latency_s"])
            problems = [self._next(row) for row in which.tolist()]
            self._batch.begin(which, problems, [self._env.start_of(one) for one in problems])
            seen, _ = self.env.reset(options={"reset_mask": ended})
        self._running += rewards
        self.returns += self._running[ended].tolist()
        self._running[ended] = 0.0
        self._seen = seen
        return seen, rewards.astype(np.float32), ended, self._no_infos

    def _count(self, ended: Ints, rewards: NDArray[np.float64], latency_s: NDArray[np.float64]) -> None:
        """Count episodes that ended; rewards take the difference to what a black box says, and to what was measured."""
        for program, evaluator in enumerate(self._evaluators):
            rows = ended[self._of[ended] == program][: evaluator.remaining]
            if evaluator.env.programs is not None:
                evaluator.spend(len(rows))
                continue
            states, box = self._batch.stacked(rows), evaluator.env.task.is_black_box
            measured = evaluator.offer_states(states) if box else evaluator.offer_ended(states, latency_s[rows])
            for row, seen_s in zip(rows, measured, strict=True) if evaluator.noisy or box else ():
                rewards[row] += self._return_of(row, seen_s) - self._return_of(row, latency_s[row])

    def _return_of(self, row: int, latency_s: float) -> float:
        return float(self._scale[row] * self._env.return_of(latency_s, self._batch.problems[row], self._env.scale))

    def play_greedily(self, model: Any, program: int) -> float:
        """Play one episode of the likeliest actions; its return is in the environment's units."""
        evaluator, env = self._evaluators[program], self._env
        problem, total = evaluator.env.problem, 0.0
        batch = env.new_batch([problem], [env.start_of(problem)])
        seen = batch.observe()
        while not batch.done()[0]:
            actions = model.predict(seen, action_masks=batch.legal(), deterministic=True)[0]
            rewards, info = env.play(batch, actions, env.scale, seen)
            total += float(rewards[0])
        evaluator.offer_ended(batch.stacked(np.zeros(1, dtype=np.int64)), info["latency_s"])
        return total

    def state_dict(self) -> dict[str, Any]:
        """Return the episodes under way, with their programs and units."""
        return {
            "random": random_state(self._rng),
            "running": torch.from_numpy(self._running),
            "scale": torch.from_numpy(self._scale),
            "settings": self._settings,
            "states": [torch.from_numpy(state) for state in self._batch.states],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Return to a state that `state_dict` gave."""
        problems = list(self._batch.problems)
        for row, options in zip(range(len(problems)), state["settings"], strict=True):
            programs: Any = self._evaluators[self._of[row]].env.programs
            if programs is not None:
                problems[row] = self._turn(row, programs.draw(self._rng, options))
        load_random(self._rng, state["random"])
        self._running, self._scale = like(state["running"], self._running), like(state["scale"], self._scale)
        states = [
            one.checked_start(like(saved, self._env.start_of(one)))
            for one, saved in zip(problems, state["states"], strict=True)
        ]
        self._batch.begin(range(len(states)), problems, states)
        self._seen = self._env.form_of(self._batch.observe())


def _by_cost_arrays(evaluator: EpisodeEvaluator) -> Any:
    """Return the evaluator's problem as the cost arrays time it."""
    env = evaluator.env
    return env.problem_of(replace(env.task, simulator=None)) if env.task.is_black_box else env.problem
