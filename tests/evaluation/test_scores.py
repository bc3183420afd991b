"""What an evaluation says, and the files it leaves."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from stepedit.data.readers import Lines
from stepedit.errors import DataError, DataWarning, UserError
from stepedit.evaluation import scores
from stepedit.evaluation.scores import RunScores, _edits_needed, evaluate, read_scores
from stepedit.inference import model_folder
from stepedit.inference.decoding import Decoding
from stepedit.inference.editor import Editor
from stepedit.inference.trained_on import TrainedOn
from stepedit.registry import TASKS

RIGHT = ("6 10 9 5 2", "6 + 10 - 9 - 5 == 2")
WRONG = ("6 10 9 5 3", "6 + 10 - 9 + 5 == 3")  # the included model makes a false equation of it
SHORT = ("2 3 5", "2 + 3 == 5")


def lines(*pairs: tuple[str, str]) -> dict[str, Lines]:
    return {"all": Lines([source for source, _ in pairs], [target for _, target in pairs])}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the included model, whose data are few."""
    copy = tmp_path / "copy"
    model_folder.export(model_folder.find("aor"), copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"num_examples": 40}))
    return copy


def test_scores_tell_apart_by_edits_and_length_and_show_three_examples_of_each_kind(folder: Path) -> None:
    with pytest.raises(UserError, match="data: expected the splits"):
        evaluate(folder, "all", data="pairs.tsv")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no split 'test'; there are: all"):
        evaluate(folder, "test", data=lines(RIGHT))
    found = evaluate(folder, "all", data=lines(*[RIGHT] * 4, *[WRONG] * 4, SHORT))
    outcome = Editor.load(folder).edit([SHORT[0]])[0]
    short = float(bool(outcome.valid))
    assert (found.pairs, found.split, found.own_data, found.num_examples) == (9, "all", False, 0)
    assert (found.beam_size, found.verify, found.min_confidence, found.lexicon, found.edits_per_step) == (
        1,
        False,
        0,
        False,
        1,
    )
    assert (found.headline, found.grouped_metric, found.scoring) == ("equation", "equation", "own")
    assert found.metrics["equation"][0] == pytest.approx((4 + short) / 9)
    assert found.by_edits == {2: (1, short), 4: (8, 0.5)}
    assert found.by_length == {3: (1, short), 5: (8, 0.5)}
    assert sum(found.stop_reasons.values()) == pytest.approx(1)
    assert found.stop_reasons["done"] >= 8 / 9
    examples = [(each.source, each.correct) for each in found.examples if each.source != SHORT[0]]
    assert examples == [(RIGHT[0], True)] * 3 + [(WRONG[0], False)] * 3
    assert (found.examples[0].prediction, found.examples[0].target, len(found.examples[0].steps)) == (*RIGHT[1:] * 2, 4)


def test_pairs_are_told_apart_only_if_some_source_is_known_to_be_in_train(folder: Path) -> None:
    other = ("3 4 7", "3 + 4 == 7")
    TrainedOn.from_texts([SHORT[0]], ["7 == 7"]).write(folder)
    assert set(evaluate(folder, "all", data=lines(SHORT, other)).by_seen) == {"source in train", "source not in train"}
    assert evaluate(folder, "all", data=lines(other)).by_seen == {}
    replace(TrainedOn.from_texts([SHORT[0]], ["7 == 7"]), num_sources=2).write(folder)  # a sample of them
    assert evaluate(folder, "all", data=lines(SHORT, other)).by_seen == {}, "of the others that is not known"


def test_what_needs_no_edit_is_no_example(tmp_path: Path) -> None:
    model_folder.export(model_folder.find("aes"), tmp_path / "copy")
    done, todo = ("2 + 3 == 5", "2 + 3 == 5"), ("2 + 3 == ( 7 - 2 )", "2 + 3 == 5")
    found = evaluate(tmp_path / "copy", "all", data=lines(done, todo))
    assert [example.source for example in found.examples] == [todo[0]]
    assert found.by_edits == {0: (1, 1.0), 1: (1, 1.0)}


def test_the_cost_of_training_is_that_of_the_last_validation(folder: Path) -> None:
    last = json.loads((folder / "metrics.jsonl").read_text().splitlines()[-1])
    found = evaluate(folder, "all", data=lines(RIGHT))
    assert (found.training_steps, found.training_seconds) == (last["step"], last["seconds"])
    assert found.training_finished
    assert found.parameters == Editor.load(folder).policy.num_parameters
    (folder / "metrics.jsonl").unlink()
    unknown = evaluate(folder, "all", data=lines(RIGHT))
    assert (unknown.training_steps, unknown.training_seconds) == (0, 0.0)


def test_a_run_is_scored_on_its_own_data_and_the_scores_are_found_again(folder: Path) -> None:
    assert read_scores(folder) is None
    found = evaluate(folder)
    assert (found.split, found.pairs, found.num_examples, found.own_data) == ("test", 6, 40, True)
    assert found.data is None
    assert read_scores(folder) == RunScores.model_validate_json(found.model_dump_json())
    assert read_scores(folder, "val") is None
    (folder / "scores-test.json").write_text("[]")
    with pytest.raises(DataError, match=r"scores-test\.json: damaged"):
        read_scores(folder)


def test_scores_without_later_fields_are_those_of_plain_greedy_decoding_on_own_data(folder: Path) -> None:
    evaluate(folder)
    path = folder / "scores-test.json"
    stored = json.loads(path.read_text())
    required = [name for name, each in RunScores.model_fields.items() if each.is_required()]
    path.write_text(json.dumps({name: stored[name] for name in required}))
    found = read_scores(folder)
    assert found is not None
    assert (found.scoring, found.own_data, found.data, found.data_hash) == ("own", True, None, None)
    assert (found.lexicon, found.keep, found.keep_code, found.edits_per_step) == (False, False, False, 1)
    assert (found.references, found.unchanged, found.trained_on, found.summary) == (1, 0, None, {})


def test_generated_splits_that_share_sources_give_no_warning_and_are_told_apart(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_examples": 1_500}))
    found = evaluate(folder)  # a warning would be an error here
    assert found.by_seen["source in train"][0] > 0
    assert sum(count for count, _ in found.by_seen.values()) == found.pairs == 225
    assert found.trained_on == 0


def test_the_scores_of_a_tuned_model_are_those_at_its_threshold(folder: Path) -> None:
    (folder / "tuned.json").write_text('{"min_confidence": 0.5}')
    assert evaluate(folder).min_confidence == 0.5
    evaluate(folder, decoding=Decoding(min_confidence=0))
    found = read_scores(folder)
    assert found is not None
    assert found.min_confidence == 0.5


def test_predictions_are_written_line_by_line(folder: Path) -> None:
    evaluate(folder, "all", data=lines(RIGHT, WRONG))
    (path,) = folder.glob("predictions-other-pairs-*-all.jsonl")
    right, wrong = map(json.loads, path.read_text().splitlines())
    assert (right["source"], right["target"], right["prediction"]) == (*RIGHT, RIGHT[1])
    assert (right["steps"], right["stop_reason"], right["sequence"], right["equation"]) == (4, "done", 1, 1)
    assert (wrong["source"], wrong["equation"]) == (WRONG[0], 0)


def test_other_pairs_have_files_of_their_own(folder: Path) -> None:
    first, second = (evaluate(folder, "all", data=lines(pair)) for pair in (RIGHT, WRONG))
    assert first.data_hash != second.data_hash
    assert len(list(folder.glob("scores-other-pairs-*-all.json"))) == 2
    evaluate(folder, "all", Decoding(beam_size=2, verify=True), lines(RIGHT))
    assert len(list(folder.glob("scores-other-pairs-*-all-beam-2-verified.json"))) == 1


def test_scores_that_cannot_be_written_are_returned_with_a_warning(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(scores, "write_atomic", full)
    with pytest.warns(DataWarning, match="the scores were not written: No space left on device"):
        assert evaluate(folder, "all", data=lines(RIGHT)).pairs == 1


def test_an_included_model_is_scored_and_not_changed() -> None:
    before = sorted(model_folder.find("aor").iterdir())
    assert evaluate("aor", "all", data=lines(RIGHT)).metrics["sequence"][0] == 1
    assert sorted(model_folder.find("aor").iterdir()) == before


def test_a_split_that_is_not_there_is_named(folder: Path) -> None:
    with pytest.raises(DataError, match="no split 'dev'; there are: train, val, test"):
        evaluate(folder, "dev")
    with pytest.raises(DataError, match="no split 'test'"):
        evaluate(folder, "test", data=lines(RIGHT))


def test_the_authors_scoring_is_for_greedy_decoding_of_their_tasks(folder: Path) -> None:
    assert evaluate(folder, "all", data=lines(RIGHT), scoring="authors").scoring == "authors"
    assert list(folder.glob("scores-other-pairs-*-all-authors.json"))
    with pytest.raises(UserError, match="greedy decoding"):
        evaluate(folder, "all", Decoding(beam_size=2), lines(RIGHT), scoring="authors")
    with pytest.raises(UserError, match="their tasks"):
        evaluate("punctuation", "all", data=lines(("a b", "A b.")), scoring="authors")


def test_text_is_also_compared_with_the_copied_source() -> None:
    found = evaluate("spelling", "all", data=lines(("teh", "the"), ("the", "the")))
    assert (found.edit_unit, found.headline) == ("word", "f0.5")
    assert found.summary["copied source"]["exact"][0] == 0.5
    assert found.summary["copied source"]["recall"][0] == 0
    assert "chrf" not in found.summary["edited"]
    assert "chrf" in evaluate("spelling", "all", data=lines(("teh", "the")), chrf=True).summary["edited"]


def test_scores_say_whether_all_that_was_trained_on_is_known(folder: Path) -> None:
    assert not evaluate("aor", "all", data=lines(SHORT)).trained_on_known, "it found pairs of its own"
    TrainedOn.from_texts(["2 3 5"], ["2 + 3 == 5"]).write(folder)
    with pytest.warns(DataWarning, match="of 1 pairs, 1 have a target that the model was trained on"):
        assert evaluate(folder, "all", data=lines(SHORT)).trained_on_known


def test_the_edits_that_a_source_needs_are_those_to_its_nearest_reference() -> None:
    task = TASKS["text"]()
    pairs = task.encode(["abc", "xyz"], ["axyzc", "xyz"])
    assert _edits_needed(task, pairs, None).tolist() == [3, 0]
    assert _edits_needed(task, pairs, [["axyzc", "abd"], ["xyz"]]).tolist() == [1, 0]
