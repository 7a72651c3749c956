"""Our own single file, in the manner of CleanRL; all of it is in examples/ppo.py."""

from examples import ppo


def train(env_id: str, steps: int, seed: int) -> list[ppo.Point]:
    """Return the learning curve."""
    return list(ppo.train(env_id, seed, steps=steps))
