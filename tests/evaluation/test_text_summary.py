"""Edited text beside its baselines."""

from stepedit.data.readers import Lines
from stepedit.evaluation.text_summary import text_summary
from stepedit.registry import TASKS

SOURCES, TARGETS, EDITED = (
    ["teh cat", "a dog", "teh end"],
    ["the cat", "a dog", "the end"],
    ["the cat", "a dig", "teh end"],
)


def test_without_more_the_targets_are_the_references_and_copying_is_the_only_baseline() -> None:
    task = TASKS["text"].from_args({})
    pairs, predictions = task.encode(SOURCES, TARGETS, whole=True), task.vocabulary.encode(EDITED)
    found = text_summary(task.vocabulary, pairs, predictions)
    assert list(found["summary"]) == ["edited", "copied source"]
    assert "chrf" not in found["summary"]["edited"]
    assert (found["references"], found["unchanged"], found["errant_types"]) == (1, 1, {})
    assert found["summary"]["edited"]["precision"][0] == found["summary"]["edited"]["recall"][0] == 0.5
    assert found["summary"]["copied source"]["exact"][0] == 1 / 3


def test_training_pairs_give_a_second_baseline_and_references_may_be_several() -> None:
    task = TASKS["text"].from_args({})
    pairs, predictions = task.encode(SOURCES, TARGETS, whole=True), task.vocabulary.encode(EDITED)
    references, train = [["the cat"], ["a dog", "a dig"], ["the end"]], Lines(["teh man"], ["the man"])
    found = text_summary(task.vocabulary, pairs, predictions, references, train)
    assert found["summary"]["most frequent replacement"]["exact"][0] == 1.0
    assert found["summary"]["edited"]["exact"][0] == 2 / 3
    assert (found["references"], found["unchanged"]) == (2, 0)
