"""The authors' scoring: outputs that are cut off, prefixes, the end symbol; and their curves."""

from pathlib import Path

import numpy as np
import pytest

from stepedit.data.states import states_after
from stepedit.editing.interpreter import Prediction
from stepedit.editing.sequences import Pairs, Sequences
from stepedit.evaluation.authors import score_as_the_authors
from stepedit.evaluation.evaluate import score
from stepedit.evaluation.paper import paper_curve, paper_result
from stepedit.inference.predict import predict
from stepedit.methods.base import Method
from stepedit.registry import METHODS, TASKS
from stepedit.text.vocabulary import Vocabulary
from tests.cli.test_commands import stepedit


class RightTags:
    """Predicts the right output of known pairs."""

    num_parameters = 0

    def __init__(self, method: Method, pairs: Pairs) -> None:
        self.method = method
        scripts = method.task.edits(pairs.sources, pairs.targets)
        outputs, _ = method.targets(states_after(pairs, scripts, np.zeros(len(pairs), np.int64)))
        self.outputs = dict(zip(map(tuple, pairs.sources.rows()), outputs, strict=True))

    def reading(self, vocabulary: Vocabulary) -> "RightTags":
        """Return itself: it needs no names."""
        return self

    def predict(self, texts: Sequences) -> Prediction:
        symbols = np.array([self.outputs[tuple(row)] for row in texts.rows()])
        return Prediction(symbols, np.zeros(len(texts)))


@pytest.mark.parametrize(("task", "share"), [("aor", 1.0), ("aec", 0.81)])
def test_right_tags_that_are_longer_than_the_longest_target_are_cut_off(task: str, share: float) -> None:
    method = METHODS["tagging"](TASKS[task](numbers=10 if task == "aec" else 60))  # so that sources are distinct
    pairs = method.task.generate(1_000, np.random.default_rng(0))
    policy = RightTags(method, pairs)
    outcomes = predict(policy, method, pairs.sources.rows())  # type: ignore[arg-type]
    own = score(method.task, Sequences.from_rows([one.tokens for one in outcomes]), pairs, outcomes)
    theirs = score_as_the_authors(policy, method, pairs, own)  # type: ignore[arg-type]
    assert own.mean("sequence") == 1
    assert theirs.mean("sequence") == pytest.approx(share, abs=0.03)


def compare(method: str, predictions: list[str], targets: list[str]) -> tuple[list[float], list[float]]:
    """Token and sequence scores of each row, as the authors count."""
    task = TASKS["aor"]()
    encoded = [task.vocabulary.encode(side) for side in (predictions, targets)]
    pairs = Pairs(encoded[1], encoded[1])
    made = METHODS[method](task)
    theirs = score_as_the_authors(None, made, pairs, score(task, encoded[0], pairs))  # type: ignore[arg-type]
    return theirs.scores["token"].tolist(), theirs.scores["sequence"].tolist()


def test_a_prediction_that_begins_with_the_target_counts_for_recurrence() -> None:
    predictions, targets = ["2 + 3 == 5 +", "2 + 3 ==", "2 + 4 == 5"], ["2 + 3 == 5"] * 3
    assert compare("recurrence", predictions, targets) == ([1.0, 0.8, 0.8], [1.0, 0.0, 0.0])


def test_the_end_symbol_counts_as_a_token_for_end2end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepedit.evaluation.authors._cut_off", lambda *arguments: None)
    predictions, targets = ["2 + 3 == 5", "2 + 3 == 5 +", "2 + 4 == 5"], ["2 + 3 == 5"] * 3
    token, sequence = compare("end2end", predictions, targets)
    assert token == pytest.approx([1.0, 5 / 6, 5 / 6])
    assert sequence == [1.0, 0.0, 0.0]


def test_scores_of_the_authors_scoring_have_their_own_name_and_need_greedy_decoding(tmp_path: Path) -> None:
    (tmp_path / "few.tsv").write_text("source\ttarget\n2 3 5\t2 + 3 == 5\n")
    assert stepedit("export", "aor", "--out", "copy", folder=tmp_path).returncode == 0
    command = ["evaluate", "copy", "--data", "few.tsv", "--scoring"]
    done = stepedit(*command, "authors", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the authors' scoring" in done.stdout
    assert list((tmp_path / "copy").glob("scores-other-few-*-all-authors.json"))
    assert "authors, own" in stepedit(*command, "autors", folder=tmp_path).stderr
    assert "greedy decoding" in stepedit(*command, "authors", "--beam-size", 3, folder=tmp_path).stderr


def test_the_papers_figures_are_the_printed_ones_and_its_curves_are_known() -> None:
    printed = paper_result("aes", "tagging", "offline", {"numbers": 100, "length": 5}, 10_000)
    assert printed is not None
    assert printed.metrics["sequence"] == 0.438
    curve = paper_curve("aor", "recurrence", "online", 10)
    assert len(curve) > 100
    assert curve[0].epoch == 1
    assert max(point.metrics["equation"] for point in curve) > 0.55
    assert paper_curve("aor", "recurrence", "augmented", 10) == []
