"""Text and tokens: nothing is ever lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit import tokens
from stepedit.tokens import CAP, CAPS, Level
from stepedit.vocabulary import PAD_TOKEN, OpenVocabulary

LEVELS: list[Level] = ["word", "char"]
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
TRICKY = st.text(st.sampled_from("aAbBßİŉǅ'’ .,<>\t\n\u0301\u200d😀👩日ก9_Σς"), max_size=20)


@pytest.mark.parametrize("level", LEVELS)
@given(text=ANY | TRICKY)
def test_what_is_split_is_joined_to_the_same_text(level: Level, text: str) -> None:
    parts = tokens.split(text, level)
    assert tokens.join(parts, level).encode() == text.encode()
    assert all(parts)


@given(texts=st.lists(ANY | TRICKY, max_size=5), known=st.lists(TRICKY, max_size=3))
def test_ids_give_back_the_text_whatever_is_known(texts: list[str], known: list[str]) -> None:
    for level in LEVELS:
        names = dict.fromkeys(token for text in known for token in tokens.split(text, level))
        words = OpenVocabulary([PAD_TOKEN, *names], level)
        assert words.decode(words.encode(texts)) == texts
        assert all(index in words for row in words.encode(texts).rows() for index in row)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("The cat saw NASA.", [CAP, " the", " cat", " saw", CAPS, " nasa", "."]),
        ("don't, e\u0301te\u0301", [" don't", ",", " e\u0301te\u0301"]),
        ("iPhone  x", [" iPhone", " ", " x"]),
        ("<Cap> a", [" <", CAP, "cap", ">", " a"]),
        ("日本 go", [" 日", "本", " go"]),
    ],
)
def test_words_are_cut_as_people_expect(text: str, parts: list[str]) -> None:
    assert tokens.split(text, "word") == parts


def test_a_sign_raises_the_word_behind_it_even_an_unknown_one() -> None:
    assert tokens.join([CAP, " xyzzy", CAPS, "b", CAP], "word") == "XyzzyB"


def test_unknown_tokens_of_one_shape_share_a_bucket_and_stay_apart() -> None:
    words = OpenVocabulary([PAD_TOKEN, " the"], "word")
    first, second, known = words.ids([" walking", " talking", " the"])
    assert known == 1
    assert first != second
    assert (first - len(words)) % words.buckets == (second - len(words)) % words.buckets
    assert [words.name(index) for index in (first, second)] == [" walking", " talking"]
    assert first not in words.opened()
