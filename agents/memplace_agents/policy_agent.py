"""Any policy as an agent: a function of observations and masks, such as a model of another library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from memplace_agents.search.agent import Agent
from memplace_agents.search.evaluator import EpisodeEvaluator, OneShotEvaluator
from memplace_env._lib.errors import AgentError
from memplace_env._lib.foreign import described
from memplace_env.envs.one_shot import OneShotEnv
from memplace_env.envs.placement_env import each_array
from memplace_env.envs.registration import Formulation

BATCH: Final = 64
"""Episodes that are played side by side; our choice."""

Act = Callable[[Any, NDArray[np.bool_]], Any]


class PolicyAgent(Agent[OneShotEvaluator | EpisodeEvaluator]):
    """Plays episodes by a function of observations and masks, and keeps the best plan.

    Without `seed`, `act` counts as deterministic, and plays one episode. With it, `act` plays until the budget of plans
    or the time is used up. The first episode is a batch of 1, in which `act` may be greedy; the others come 64 at a
    time.

    Example, a model of sb3-contrib, greedy and then sampled:
        >>> def act(observations, masks):
        ...     return model.predict(observations, action_masks=masks, deterministic=len(masks) == 1)[0]
        >>> PolicyAgent(act, "game", seed=set_random_seed).solve("MallocGame-BERT-v0", budget=100)

    For the command line and the leaderboard, write a subclass that sets `name` and `formulations`, and loads its
    weights in its constructor: `memplace solve BERT --formulation game --agent module:Class`.

    Args:
        act: called as `act(observations, masks)`, returns actions. In games and steps masks are bool[B, 3], all
            True for ended episodes, and actions int[B]; in one shot masks are bool[B, 2T, L] and actions int[B, 2T].
            Illegal actions are replaced as in the environment. Games skip decisions with a single legal action.
        formulation: "one-shot", "steps" or "game"; None for the first of the class.
        observation: "flat", float32[B, n]; "dict", such arrays by name; or "graph", a list of `GraphInstance`.
        seed: called with the seed before the first decision, such as `torch.manual_seed`, if `act` draws.

    Raises:
        AgentError: for another formulation or observation.
    """

    name = "policy"

    def __init__(self, act: Act, formulation: str | None = None, observation: str = "flat", seed: Any = None) -> None:
        known = (Formulation.ONE_SHOT, Formulation.STEPS, Formulation.GAME)
        played = formulation or next(iter(getattr(self, "formulations", ())), None)
        if played not in known or observation not in ("flat", "dict", "graph"):
            forms = f"{', '.join(known)} and sees flat, dict or graph, not {played!r} and {observation!r}"
            raise AgentError(f"A policy plays one of {forms}.")
        for name, given in {"act": act, "seed": seed}.items():
            if not callable(given) and (name == "act" or given is not None):
                raise AgentError(f"{name} must be a function, not {described(given)}.")
        self.formulations = (Formulation(played),)
        self.act, self.observation, self.seed = act, observation, seed
        self.budgeted, self.deterministic = seed is not None, seed is None

    def run(self, evaluator: OneShotEvaluator | EpisodeEvaluator, seed: int) -> None:
        """Play episodes, or offer assignments, until the budget is spent; one if `act` draws nothing."""
        if self.seed is not None:
            self.seed(seed)
        play = self._assigning(evaluator) if isinstance(evaluator, OneShotEvaluator) else self._playing(evaluator)
        play(1)
        while self.seed is not None and evaluator.remaining > 0:
            play(min(BATCH, evaluator.remaining))

    def _actions(self, observations: Any, masks: NDArray[np.bool_]) -> NDArray[Any]:
        try:
            return np.asarray(self.act(observations, masks))
        except ValueError as error:
            raise AgentError(f"act must return an array of actions; of predict's pair take [0] ({error}).") from error

    def _assigning(self, evaluator: OneShotEvaluator) -> Callable[[int], None]:
        env = OneShotEnv(evaluator.env.task, observation=self.observation)
        seen: Any = env.reset()[0]

        def assign(count: int) -> None:
            masks = np.repeat(env.problem.mask[None], count, axis=0)
            rows = [seen] * count if env.graph else each_array(lambda one: np.repeat(one[None], count, axis=0), seen)
            evaluator(env.problem.check(self._actions(rows, masks), (count,)))

        return assign

    def _playing(self, evaluator: EpisodeEvaluator) -> Callable[[int], None]:
        # Played by states and not by `step`, which would ask a black box: the evaluator does, about what it counts.
        own: Any = evaluator.env
        skipping = {"skip_forced": True} if evaluator.formulation is Formulation.GAME else {}
        env = type(own)(own.task, observation=self.observation, **(skipping or {"order": own.order}))

        def play(count: int) -> None:
            batch = env.new_batch([env.problem] * count, [env.start_of(env.problem)] * count)
            seen = batch.observe()
            while not batch.done().all():
                if evaluator.incumbent is not None and evaluator.remaining == 0:
                    return  # time is up
                graphs = [env.graph_of(env.problem, state) for state in batch.states] if env.graph else None
                masks = batch.legal() | batch.done()[:, None]
                actions = self._actions(graphs or env.form_of(seen), masks)
                batch.step(env.checked_actions(actions, (count,)), seen, **skipping)
            evaluator.offer_states(batch.stacked(np.arange(count)))

        return play
