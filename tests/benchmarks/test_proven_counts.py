"""The document's counts of proven ids are those of `suites/best-known.toml`."""

from benchmarks.proven_counts import paragraph
from tests.source import ROOT


def test_the_document_says_what_the_command_prints():
    text = (ROOT / "docs" / "how-it-is-solved.md").read_text(encoding="utf-8")
    again = "run: python -m benchmarks.proven_counts --write docs/how-it-is-solved.md"
    assert f"<!-- proven:begin -->\n{paragraph()}\n<!-- proven:end -->" in text, again
