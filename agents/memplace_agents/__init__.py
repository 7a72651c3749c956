"""Agents: each solves an environment within a budget and returns a `Solution` with its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memplace_env._lib.lazy import export_lazily

if TYPE_CHECKING:
    from memplace_agents.auto import Auto as Auto
    from memplace_agents.auto import Portfolio as Portfolio
    from memplace_agents.calibrated import Calibrated as Calibrated
    from memplace_agents.cross_entropy import CrossEntropy as CrossEntropy
    from memplace_agents.egrl import EGRL as EGRL
    from memplace_agents.egrl import EGRLConfig as EGRLConfig
    from memplace_agents.exact import Exact as Exact
    from memplace_agents.exact import ExactDynamic as ExactDynamic
    from memplace_agents.greedy_dp import GreedyDP as GreedyDP
    from memplace_agents.muzero import MuZero as MuZero
    from memplace_agents.muzero import MuZeroConfig as MuZeroConfig
    from memplace_agents.plan_gradient import PlanGradient as PlanGradient
    from memplace_agents.plan_gradient import PlanGradientConfig as PlanGradientConfig
    from memplace_agents.policy_agent import PolicyAgent as PolicyAgent
    from memplace_agents.ppo import PPO as PPO
    from memplace_agents.ppo import PPOConfig as PPOConfig
    from memplace_agents.random_search import RandomSearch as RandomSearch
    from memplace_agents.registry import agent_specs as agent_specs
    from memplace_agents.registry import make_agent as make_agent
    from memplace_agents.rule_agents import BestRule as BestRule
    from memplace_agents.rule_agents import CompilersRule as CompilersRule
    from memplace_agents.rule_agents import DensityGreedy as DensityGreedy
    from memplace_agents.rule_agents import GreedyPlayer as GreedyPlayer
    from memplace_agents.rule_agents import XlaMsa as XlaMsa
    from memplace_agents.search.agent import Agent as Agent
    from memplace_agents.search.evaluator import GameEvaluator as GameEvaluator
    from memplace_agents.search.evaluator import OneShotEvaluator as OneShotEvaluator
    from memplace_agents.search.game_local_search import GameLocalSearch as GameLocalSearch
    from memplace_agents.search.local_search import LocalSearch as LocalSearch
    from memplace_agents.solution import Outcome as Outcome
    from memplace_agents.solution import Progress as Progress
    from memplace_agents.solution import Solution as Solution
    from memplace_agents.solution import Verdict as Verdict
    from memplace_agents.xla_autotune import XlaAutotune as XlaAutotune

export_lazily(
    __name__,
    {
        "auto": "Auto Portfolio",
        "calibrated": "Calibrated",
        "cross_entropy": "CrossEntropy",
        "egrl": "EGRL EGRLConfig",
        "exact": "Exact ExactDynamic",
        "greedy_dp": "GreedyDP",
        "muzero": "MuZero MuZeroConfig",
        "plan_gradient": "PlanGradient PlanGradientConfig",
        "policy_agent": "PolicyAgent",
        "ppo": "PPO PPOConfig",
        "random_search": "RandomSearch",
        "registry": "agent_specs make_agent",
        "rule_agents": "BestRule CompilersRule DensityGreedy GreedyPlayer XlaMsa",
        "search.agent": "Agent",
        "search.evaluator": "GameEvaluator OneShotEvaluator",
        "search.game_local_search": "GameLocalSearch",
        "search.local_search": "LocalSearch",
        "solution": "Outcome Progress Solution Verdict",
        "xla_autotune": "XlaAutotune",
    },
)
