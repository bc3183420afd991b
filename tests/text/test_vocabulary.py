"""Tokens to ids and back."""

import pytest

from stepedit.errors import DataError
from stepedit.text.vocabulary import PAD_TOKEN, OpenVocabulary, Vocabulary


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
