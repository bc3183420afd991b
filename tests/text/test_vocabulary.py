"""Tokens to ids and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.errors import DataError
from stepedit.text import vocabulary as vocabularies
from stepedit.text.vocabulary import NUM_IDS, PAD_TOKEN, OpenVocabulary, Vocabulary


def test_decoding_is_the_inverse_of_encoding() -> None:
    vocabulary = Vocabulary(["<pad>", "a", "b"])
    lines = ["a b a", "", "b"]
    assert vocabulary.decode(vocabulary.encode(lines)) == lines


@pytest.mark.parametrize(("lines", "message"), [(["a", "a c"], "pair 2: unknown token 'c'"), (["<pad>"], "padding")])
def test_a_token_that_cannot_be_encoded_is_named_with_its_line(lines: list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        Vocabulary(["<pad>", "a", "b"]).encode(lines)


@pytest.mark.parametrize("tokens", [[], ["a"], ["<pad>", "a", "a"]])
def test_a_vocabulary_starts_with_padding_and_has_no_duplicates(tokens: list[str]) -> None:
    with pytest.raises(ValueError, match="a vocabulary"):
        Vocabulary(tokens)


def test_unknown_tokens_of_one_shape_share_a_bucket_and_stay_distinct() -> None:
    vocabulary = OpenVocabulary([PAD_TOKEN, " the"], "word")
    first, second, known = vocabulary.ids([" walking", " talking", " the"])
    assert known == 1
    assert first != second
    assert (first - len(vocabulary)) % vocabulary.num_buckets == (second - len(vocabulary)) % vocabulary.num_buckets
    assert [vocabulary.name(index) for index in (first, second)] == [" walking", " talking"]
    assert first not in vocabulary.opened()


def digits(vocabulary: OpenVocabulary, index: int) -> list[int]:
    """Return the buckets of a token: shape, first letter, first three, last three, first five."""
    number, found = index - len(vocabulary), list[int]()
    for size in vocabulary.bucket_sizes:
        number, digit = divmod(number, size)
        found.append(digit)
    return found


def test_unknown_tokens_share_the_buckets_of_the_letters_that_they_share() -> None:
    vocabulary = OpenVocabulary([PAD_TOKEN, " the"], "word", spelled=True)
    walking, walked, talking, again = (
        digits(vocabulary, index) for index in vocabulary.ids([" walking", " walked", " talking", " walking"])
    )
    assert walking == again
    assert [one == other for one, other in zip(walking, walked, strict=True)] == [False, True, True, False, False]
    assert [one == other for one, other in zip(walking, talking, strict=True)] == [True, False, False, True, False]


@given(st.lists(st.text(max_size=8), max_size=20, unique=True))
def test_spelled_tokens_stay_distinct_and_have_names(tokens: list[str]) -> None:
    tokens = [token for token in tokens if token]
    vocabulary = OpenVocabulary([PAD_TOKEN, " the"], "word", spelled=True)
    ids = vocabulary.ids(tokens)
    assert len(set(ids)) == len(tokens)
    assert list(map(vocabulary.name, ids)) == tokens
    assert all(0 <= index < NUM_IDS for index in ids)


def test_a_known_token_that_is_shown_as_unknown_has_its_own_buckets() -> None:
    vocabulary = OpenVocabulary([PAD_TOKEN, " walking"], "word", spelled=True)
    shown = vocabulary.as_unknown(1)
    assert digits(vocabulary, shown) == digits(vocabulary, vocabulary.buckets()[1] + len(vocabulary))
    assert shown not in vocabulary
    assert shown < NUM_IDS
    assert vocabulary.opened().buckets() == vocabulary.buckets()


def test_more_tokens_of_one_bucket_than_there_are_ids_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vocabularies, "NUM_IDS", 64 * 20)
    vocabulary = OpenVocabulary([PAD_TOKEN], "word")
    with pytest.raises(DataError, match=r"more than 10 unknown tokens .* '1\d'"):
        vocabulary.ids(list(map(str, range(100))))
