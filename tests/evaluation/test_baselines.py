"""The most frequent replacement of each word."""

from hypothesis import given
from hypothesis import strategies as st

from stepedit.evaluation.baselines import MostFrequentReplacement, aligned
from stepedit.text.tokenization import words_and_marks


def fit(*pairs: tuple[str, str]) -> MostFrequentReplacement:
    return MostFrequentReplacement.fit([pair[0] for pair in pairs], [pair[1] for pair in pairs])


def test_a_word_becomes_what_it_mostly_becomes() -> None:
    dictionary = fit(("i saw teh cat", "I saw the cat"), ("teh dog i met", "the dog I met"), ("teh teh", "ten tea"))
    assert dictionary.apply("teh man, i think") == "the man, I think"
    assert dictionary.replacements == {" teh": (" the",), " i": (" I",)}


def test_a_word_that_mostly_stays_stays_and_so_does_a_tie() -> None:
    assert fit(("a b", "a c"), ("a b", "a b"), ("x b", "x b")).apply("b") == "b"
    assert fit(("a b", "a c"), ("a b", "a b")).apply("b") == "b", "as often as it stays"
    assert fit(("a b", "a c"), ("a b", "a d")).apply("b") == "b", "two replacements, equally often"


def test_words_are_deleted_and_become_several() -> None:
    dictionary = fit(("so um this one is it", "so this one is it"), ("this is alot of it", "this is a lot of it"))
    assert dictionary.apply("um, alot um") == ", a lot"
    assert dictionary.apply("well um alot") == "well a lot"


def test_case_and_marks_count_as_written() -> None:
    dictionary = fit(("Monday , monday", "Monday, Monday"))
    assert dictionary.apply("monday ,") == "Monday,"
    assert dictionary.apply("MONDAY") == "MONDAY"


def test_what_is_inserted_between_words_that_stay_belongs_to_none() -> None:
    assert fit(("however it is", "however, it is")).replacements == {}


def test_a_span_is_taken_word_by_word() -> None:
    source, target = words_and_marks("a b c d e"), words_and_marks("a x y e")
    assert list(aligned(source, target)) == [
        (" a", (" a",)),
        (" b", (" x",)),
        (" c", (" y",)),
        (" d", ()),
        (" e", (" e",)),
    ]


@given(text=st.text(max_size=20))
def test_text_of_unknown_words_stays(text: str) -> None:
    assert MostFrequentReplacement({}).apply(text) == text


@given(source=st.text("ab ,", max_size=12), target=st.text("ab ,", max_size=12))
def test_every_word_of_the_source_is_aligned_once(source: str, target: str) -> None:
    words = words_and_marks(source)
    assert [word for word, _ in aligned(words, words_and_marks(target))] == words
