"""Unknown names: near ones are found whatever the case, far ones are not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memplace_env._lib.hints import instead, nearest

KNOWN = ["BERT", "BERT-Large", "ResNet50", "nnp-i", "sequence"]


def test_near_names() -> None:
    assert nearest("nnpi", KNOWN) == "nnp-i"
    assert nearest("NNP-I", KNOWN) == "nnp-i"
    assert nearest("seq", KNOWN) == "sequence"
    assert nearest("gem5", KNOWN) is None
    assert nearest("", KNOWN) is None
    assert nearest(5, KNOWN) is None


def test_how_sentences_end() -> None:
    assert instead("bert", KNOWN) == "did you mean 'BERT'?"
    assert instead("gem5", ["a", "b"]) == "there are a, b."


@given(st.sampled_from(KNOWN), st.integers(0, 9), st.sampled_from("xz_"))
def test_a_letter_too_many_does_no_harm(name: str, at: int, letter: str) -> None:
    typed = (name[: at % len(name)] + letter + name[at % len(name) :]).swapcase()
    assert nearest(typed, [name, "quite another", "third"]) == name
