"""Other people's libraries of reinforcement learning on environments of this package."""
