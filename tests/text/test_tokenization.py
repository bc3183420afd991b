"""Tokenization is lossless."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.text import tokenization
from stepedit.text.tokenization import CAP, CAPS, Level
from stepedit.text.vocabulary import PAD_TOKEN, OpenVocabulary

LEVELS: list[Level] = ["word", "char"]
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
TRICKY = st.text(st.sampled_from("aAbBßİŉǅ'’ .,<>\t\n\u0301\u200d😀👩日ก9_Σς"), max_size=20)


@pytest.mark.parametrize("level", LEVELS)
@given(text=ANY | TRICKY)
def test_joining_is_the_inverse_of_splitting(level: Level, text: str) -> None:
    tokens = tokenization.split(text, level)
    assert tokenization.join(tokens, level).encode() == text.encode()
    assert all(tokens)


@given(texts=st.lists(ANY | TRICKY, max_size=5), known=st.lists(TRICKY, max_size=3))
def test_decoding_is_the_inverse_of_encoding_whatever_tokens_are_known(texts: list[str], known: list[str]) -> None:
    for level in LEVELS:
        names = dict.fromkeys(token for text in known for token in tokenization.split(text, level))
        vocabulary = OpenVocabulary([PAD_TOKEN, *names], level)
        assert vocabulary.decode(vocabulary.encode(texts)) == texts
        assert all(index in vocabulary for row in vocabulary.encode(texts).rows() for index in row)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The cat saw NASA.", [CAP, " the", " cat", " saw", CAPS, " nasa", "."]),
        ("don't, e\u0301te\u0301", [" don't", ",", " e\u0301te\u0301"]),
        ("iPhone  x", [" iPhone", " ", " x"]),
        ("<Cap> a", [" <", CAP, "cap", ">", " a"]),
        ("日本 go", [" 日", "本", " go"]),
    ],
)
def test_text_is_split_into_words_marks_and_case_signs(text: str, tokens: list[str]) -> None:
    assert tokenization.split(text, "word") == tokens


def test_a_case_sign_applies_to_the_word_after_it_even_an_unknown_one() -> None:
    assert tokenization.join([CAP, " xyzzy", CAPS, "b", CAP], "word") == "XyzzyB"
