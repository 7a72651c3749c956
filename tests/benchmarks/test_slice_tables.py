"""The tables about slices: short ones on the page, everything in data files beside it."""

import csv

from benchmarks import sliced_ids, slices
from benchmarks.ledger import Ledger
from benchmarks.tables import DataFile, publish

PAIRS = slices.gains([r for r in Ledger(slices.RESULTS, slices.FIELDS).records if r["table"] == "gains"])


def test_the_page_shows_of_each_six_ids_the_one_in_the_middle():
    assert len(PAIRS) == 54
    assert [pair.gain for pair in PAIRS] == sorted((pair.gain for pair in PAIRS), reverse=True)
    lines = slices.gains_table(PAIRS).splitlines()
    shown = [line.split(" | ")[0].removeprefix("| ") for line in lines[2:11]]
    assert shown == [PAIRS[rank].whole["name"] for rank in range(3, 54, 6)]
    assert lines[11].startswith("| geometric mean of 54 |")
    enough = sum(pair.gain >= 1.02 for pair in PAIRS)
    assert f"{enough} of 54 ids gain at least 2%." in lines


def test_data_files_have_every_id():
    assert [row[0] for row in slices.gains_file(PAIRS).rows] == [pair.whole["name"] for pair in PAIRS]
    records = sliced_ids.measured()
    heads, rows = sliced_ids.ids_file(records)
    assert len(rows) == len(records) == 54 + 105
    assert {len(row) for row in rows} == {len(heads)}
    assert [bool(row[1]) for row in rows] == [sliced_ids.has_id(record) for record in records]


def test_data_files_lie_beside_each_document(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- rows:begin -->\nold\n<!-- rows:end -->\nafter\n")
    publish({"rows": "new"}, [page], {"rows.csv": DataFile(("id", "gain"), [("a, b", 1.5), ("c", "")])})
    assert page.read_text() == "before\n<!-- rows:begin -->\nnew\n<!-- rows:end -->\nafter\n"
    with (tmp_path / "data" / "rows.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["id", "gain"], ["a, b", "1.5"], ["c", ""]]
