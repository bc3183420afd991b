"""Affix rules: what they make of words, and how they are learned."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.errors import DataError
from stepedit.text.affix_rules import MIN_STEM, AffixRule, WordForms, learn, rule_between
from stepedit.text.vocabulary import PAD_TOKEN, OpenVocabulary

WORDS = st.text("abcdeкий", min_size=1, max_size=9)


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (" walk", " walked", "-0+ed"),
        (" city", " cities", "-1+ies"),
        (" walked", " walk", "-2+"),
        (" known", " unknown", "un+0-"),
        (
            " \u0915\u093f\u0924\u093e\u092c",
            " \u0915\u093f\u0924\u093e\u092c\u0947\u0902",
            "-0+\u0947\u0902",
        ),  # Hindi: books
        (" комп'ютер", " комп'ютера", "-0+а"),
        (" girl", " girl's", "-0+'s"),
        (" cafe\u0301", " cafe\u0301s", "-0+s"),
    ],
)
def test_the_rule_between_two_words_makes_one_from_the_other(old: str, new: str, rule: str) -> None:
    found = rule_between(old, new)
    assert str(found) == rule
    assert found is not None
    assert found.apply(old) == new


def test_a_rule_works_on_a_word_that_was_never_seen() -> None:
    assert AffixRule.parse("-1+ies").apply(" zorby") == " zorbies"


@given(WORDS, WORDS)
def test_whatever_rule_is_found_makes_the_word_and_survives_its_name(old: str, new: str) -> None:
    rule = rule_between(old, new)
    if rule is not None:
        assert rule.apply(old) == new
        assert AffixRule.parse(str(rule)) == rule
        assert len(old) - rule.removed >= MIN_STEM


@pytest.mark.parametrize("token", ["<Cap>", " 12", ",", " a", ""])
def test_a_rule_leaves_marks_numbers_and_short_words_alone(token: str) -> None:
    assert AffixRule(0, "s").apply(token) is None or len(token.strip()) >= MIN_STEM
    assert AffixRule(1, "s").apply(token) is None


def test_only_frequent_rules_are_learned_and_the_most_frequent_comes_first() -> None:
    words = [(" walk", " walks")] * 3 + [(" city", " cities")] * 2 + [(" go", " went")] * 9
    assert [str(rule) for rule in learn(words, min_count=2)] == ["-0+s", "-1+ies"]
    assert [str(rule) for rule in learn(words, min_count=3)] == ["-0+s"]
    assert [str(rule) for rule in learn(words, min_count=2, max_rules=1)] == ["-0+s"]


@pytest.mark.parametrize("text", ["", "walk", "-x+ed", "-99+ed", "ed", "+-", "-0+4", "-0+ x", "-0+a\nb", "-0+abcdefg"])
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="not an affix rule"):
        AffixRule.parse(text)


def test_forms_have_ids_of_their_own_and_are_found_again() -> None:
    vocabulary = OpenVocabulary((PAD_TOKEN, " walk", " the"), "word")
    forms = WordForms([AffixRule(0, "ed"), AffixRule(1, "ies")], vocabulary)
    walked = forms.form(1, 0)
    assert walked is not None
    assert vocabulary.name(walked) == " walked"
    assert forms.rule(1, walked) == 0
    assert forms.rule(1, 2) == -1
    assert forms.form(1, 9) is None
    both = np.array([1, 1]), np.array([walked, walked]), np.array([True, False])
    assert forms.rules_between(*both).tolist() == [0, -1]
