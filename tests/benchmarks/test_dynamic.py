"""The table of plans with copies."""

from concurrent.futures import ThreadPoolExecutor

from benchmarks import dynamic
from benchmarks.ledger import Ledger
from memplace_env.envs.registration import ONE_SHOT


def test_settings_are_the_registered_ones():
    assert [run["name"] for run in dynamic.runs(list(ONE_SHOT), 1.0)] == list(ONE_SHOT)
    assert set(dynamic.SHOWN) < set(dynamic.names()) < set(ONE_SHOT)
    assert dynamic.runs(["BERT-edge-tpu"], 1.0)[0]["accelerator"] == "edge-tpu"


def test_a_table_of_one_line(tmp_path):
    with ThreadPoolExecutor(1) as pool:
        (record,) = Ledger(tmp_path / "dynamic.jsonl", dynamic.FIELDS).complete(
            dynamic.runs(["AlexNet"], 60.0), dynamic.measure, pool
        )
    assert record["bound_s"] <= record["dynamic_s"] <= record["static_s"] <= record["native_s"]
    (line,) = dynamic.table([record]).splitlines()[2:]
    assert line.startswith("| AlexNet | 1.7590 | 1.7577 | ")
    assert dynamic.data([record]).rows[0][:3] == ["int8, batch 32", "AlexNet", "1.7590"]
    assert dynamic.paragraph([record]) == (
        "Of the 1 ids 1 gain 1 % or more, 0 10 % or more; the mean gain is 3.3%, the largest 3%. 1 of the plans with "
        "copies are\nproven optimal, 1 of those without."
    )
