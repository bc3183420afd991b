"""Synthetic errors: what pairs have wrong is made again in their targets, as often and nowhere else."""

from collections import Counter
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.editing.sequences import Sequences
from stepedit.tasks.parallel_text import ParallelText
from stepedit.text.error_model import SMOOTHING, ErrorModel
from stepedit.text.tokenization import CAP

WORDS = ("on", "in", "the", "walk", "walks", "cat", "talk", "now")


def learned(pairs: list[tuple[str, str]], level: str = "word") -> tuple[ErrorModel, ParallelText]:
    """Return the errors of some pairs (source, target)."""
    task = ParallelText.for_data(*zip(*pairs, strict=True), {"level": level})
    return task.error_model(task.encode(*zip(*pairs, strict=True))), task


def written(model: ErrorModel, target: str, size: int = 2_000) -> Counter[str]:
    """Return how often a target is written in which way."""
    vocabulary, rng = model.vocabulary, Random(0)
    row = vocabulary.ids(vocabulary.split(target))
    return Counter(vocabulary.text(model.corrupt_row(row, rng)) for _ in range(size))


def test_a_phrase_is_wrong_as_often_as_in_the_pairs() -> None:
    model, _ = learned([("in monday", "on monday")] * 20 + [("on monday", "on monday")] * 75)
    found = written(model, "come on monday")
    assert set(found) == {"come on monday", "come in monday"}
    assert found["come in monday"] / 2_000 == pytest.approx(20 / (95 + SMOOTHING), abs=0.03)


def test_different_errors_come_in_their_proportions() -> None:
    pairs = [("in monday", "on monday")] * 60 + [("at monday", "on monday")] * 20 + [("monday", "on monday")] * 20
    found = written(learned(pairs)[0], "on monday")
    assert found["in monday"] / found["at monday"] == pytest.approx(3, rel=0.25)
    assert found["monday"] / found["at monday"] == pytest.approx(1, rel=0.25)


def test_a_token_too_many_stands_where_the_pairs_have_it() -> None:
    model, _ = learned([("of the course", "of course")] * 40 + [("the cat", "the cat")] * 40)
    found = written(model, "of course the cat")
    assert set(found) == {"of course the cat", "of the course the cat"}
    assert found["of the course the cat"] / 2_000 == pytest.approx(40 / (40 + SMOOTHING), abs=0.03)


def test_a_token_too_many_may_come_first() -> None:
    model, _ = learned([("well now go", "now go")] * 20 + [("now go", "now go")] * 20)
    assert set(written(model, "now go")) == {"now go", "well now go"}


def test_an_ending_that_is_often_wrong_is_wrong_in_other_words_too() -> None:
    verbs = ["walk", "talk", "jump", "swim", "sing", "read", "play", "work", "call", "cook", "help", "look"]
    pairs = [(f"he {verb}", f"he {verb}s") for verb in verbs] + [(f"she {verb}s", f"she {verb}s") for verb in verbs]
    found = written(learned(pairs)[0], "she opens")
    assert set(found) == {"she opens", "she open"}
    assert found["she open"] / 2_000 == pytest.approx(12 / (24 + SMOOTHING), abs=0.03)
    seen = written(
        learned([*pairs, *pairs[12:] * 8])[0], "she walks"
    )  # its own errors, not those of its ending as well
    assert seen["she walk"] / 2_000 == pytest.approx(1 / (10 + SMOOTHING), abs=0.03)
    assert set(written(learned(pairs[:9] + pairs[12:])[0], "she opens")) == {"she opens"}, "nine are too few"


def test_words_without_a_space_between_them_are_one_word() -> None:
    model, _ = learned([("(it is", "( it is")] * 20 + [("now", "now")] * 20)
    vocabulary, rng = model.vocabulary, Random(0)
    row = vocabulary.ids([" use", " it", " now"])
    found = {tuple(map(vocabulary.name, model.corrupt_row(row, rng))) for _ in range(200)}
    assert found == {(" use", " it", " now"), (" useit", " now")}


@pytest.mark.parametrize("sign", [[], [CAP]])
def test_a_window_inside_a_line_begins_as_its_target_does(sign: list[str]) -> None:
    model, _ = learned([("(it is", "( it is")] * 20 + [("walk", "walk")])
    vocabulary, rng = model.vocabulary, Random(0)
    for first in ("use", " use"):  # behind a bracket or a space
        row = vocabulary.ids([*sign, first, " it", " now"])
        found = {tuple(map(vocabulary.name, model.corrupt_row(row, rng))) for _ in range(200)}
        assert found == {(*sign, first, " it", " now"), (*sign, f"{first}it", " now")}


def test_short_words_and_numbers_keep_their_ending() -> None:
    verbs = ["walk", "talk", "jump", "swim", "sing", "read", "play", "work", "call", "cook", "help", "look"]
    model, _ = learned([(f"he {verb}", f"he {verb}s") for verb in verbs])
    assert set(written(model, "is")) == {"is"}
    assert set(written(model, "24s")) == {"24s"}


@given(
    st.lists(st.tuples(*[st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)] * 2), min_size=1), st.integers(0)
)
def test_tokens_are_those_of_the_pairs_and_targets_without_errors_stay(pairs: list[tuple[str, str]], seed: int) -> None:
    pairs.append(("in the", "on the"))
    model, task = learned(pairs)
    own = task.encode(*zip(*pairs, strict=True))
    made = model.corrupt(own.targets, np.random.default_rng(seed))
    written = {token for row in own.sources.rows() for token in row}
    for target, new in zip(own.targets.rows(), made.rows(), strict=True):
        assert set(new) <= {*target, *written}
    again = model.corrupt(own.targets, np.random.default_rng(seed))
    assert made.equals(again).all(), "a seed gives the same errors again"
    clean, _ = learned([("in the", "on the"), ("cat", "cat")])
    vocabulary = clean.vocabulary
    cats = Sequences.from_rows([vocabulary.ids([" cat", " walk"])] * 20)
    assert clean.corrupt(cats, np.random.default_rng(seed)).equals(cats).all()


def test_it_works_by_character() -> None:
    model, _ = learned([("teh", "the")] * 10 + [("dog", "dog")] * 30, level="char")
    assert {"the", "teh"} <= set(written(model, "the"))
    assert set(written(model, "dog")) == {"dog"}
