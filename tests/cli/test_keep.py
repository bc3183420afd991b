"""Words that stay, from the command line."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "stepedit"]
TEXT = "does acme run in europe on `monday`"


def stepedit(*arguments: object, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, input=stdin)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    (tmp_path / "words.txt").write_text("# names\nACME\ncase:does\n/gen.im/\n")
    return tmp_path / "words.txt"


@pytest.mark.parametrize("workers", [1, 2])
def test_edit_keeps_the_words_of_a_file(words: Path, workers: int) -> None:
    lines = "We use gensim, gennim and catagory\nthis catagory\n"
    made = stepedit("edit", "spelling", "--keep", words, "--num-workers", workers, stdin=lines)
    assert (made.stdout, made.stderr) == ("We use gensim, gennim and category\nthis category\n", "")


def test_edit_keeps_words_and_code_and_shows_its_steps(words: Path) -> None:
    free, kept = (
        json.loads(stepedit("edit", "punctuation", TEXT, "--json", *more).stdout)
        for more in ([], ["--keep", words, "--keep-code"])
    )
    assert free["text"].startswith("Does")
    assert kept["text"].startswith("does acme")
    assert "`monday`" in kept["text"]
    assert kept["steps"]


@pytest.mark.parametrize(
    ("content", "model", "reason"),
    [
        ("/(/", "spelling", "words.txt:1: not a regular expression"),
        ("# names", "spelling", "words.txt: expected a word"),
        ("6", "aor", "keep and keep_code are for text"),
    ],
)
def test_a_list_that_cannot_be_used_is_one_line(tmp_path: Path, content: str, model: str, reason: str) -> None:
    (tmp_path / "words.txt").write_text(content)
    made = stepedit("edit", model, "6 10", "--keep", tmp_path / "words.txt")
    assert (made.returncode, made.stderr.count("\n")) == (2, 1)
    assert reason in made.stderr


def test_evaluate_counts_with_the_words_that_stay(words: Path, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("source\ttarget\ngensim\tgensim\ncatagory\tcategory\n")
    made = stepedit("export", "spelling", "--out", tmp_path / "copy")
    assert made.returncode == 0, made.stderr
    scores = {}
    for more in ([], ["--keep", words]):
        made = stepedit("evaluate", tmp_path / "copy", "--data", tmp_path / "pairs.tsv", "--json", *more)
        assert made.returncode == 0, made.stderr
        scores[bool(more)] = json.loads(made.stdout)
    assert [scores[kept]["metrics"]["sequence"][0] for kept in (False, True)] == [0.5, 1.0]
    assert [scores[kept]["keep"] for kept in (False, True)] == [False, True]
    names = {path.name for path in (tmp_path / "copy").glob("scores-*.json")}
    assert len(names) == 2
    assert any(re.search(r"-keep-[0-9a-f]{8}\.json$", name) for name in names)
