"""Plans of the exact agent that are played as games."""

from benchmarks import game_replay, proofs


def test_a_plan_is_played_and_annealed(monkeypatch):
    monkeypatch.setattr(game_replay, "GAMES", 20)
    record = game_replay.measure("MallocGame-SqueezeNet-edge-tpu-v0")
    assert record["annealed_ps"] <= record["game_ps"]
    bound_ps = proofs.bounds_ps()[record["id"]]
    assert min(record["plan_ps"], record["annealed_ps"]) >= bound_ps


def test_losses_are_counted_over_proven_games_and_all():
    records = [
        {"id": "a", "plan_ps": 100_000, "game_ps": 110_000, "annealed_ps": 100_001},
        {"id": "b", "plan_ps": 100_000, "game_ps": 120_000, "annealed_ps": 105_000},
    ]
    _, _, *rows = game_replay.table(records, {"a"}).splitlines()
    assert rows[0] == "| proven, 1 | the game that follows the plan | +10.00% | +10.00% | +10.00% | 0 |"
    assert rows[1] == "| proven, 1 | after 2,000 games | +0.00% | +0.00% | +0.00% | 1 |"
    assert rows[3] == "| all, 2 | after 2,000 games | +5.00% | +5.00% | +5.00% | 1 |"
