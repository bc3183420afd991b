"""The models that come with stepedit."""

import subprocess
import sys
from pathlib import Path

import pytest

from stepedit import checkpoints
from stepedit.editor import Editor
from stepedit.errors import UserError
from stepedit.evaluation import evaluate
from stepedit.serving.shelf import Shelf
from stepedit.training import load_pairs
from stepedit.tuning import tune

LEAST = {"aor": 0.75, "aes": 0.97, "aec": 0.55}  # of the headline figure on 300 pairs it has not seen
TEXTS = {
    "spelling": {"a catagory, definately!": "a category, definitely!", "日本 42": "日本 42"},
    "punctuation": {
        "for example the following code prints a list of all names": (
            "For example, the following code prints a list of all names:"
        ),
        "the python interpreter calls it when an instance is created": (
            "The Python interpreter calls it when an instance is created."
        ),
    },
}
COMMAND = [sys.executable, "-c", "from stepedit.cli import main; main()"]


def test_they_are_there() -> None:
    assert set(checkpoints.shipped_models()) == {*LEAST, *TEXTS}


@pytest.mark.parametrize("name", [*LEAST, *TEXTS])
def test_it_is_small_and_says_how_it_was_made(name: str) -> None:
    folder = checkpoints.find(name)
    assert checkpoints.is_shipped(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
    run = checkpoints.read_run(folder)
    assert f"stepedit train {run.task} " in (folder / "README.md").read_text()
    assert run.data is None or not Path(run.data).is_absolute()


@pytest.mark.parametrize("name", TEXTS)
def test_it_edits_text(name: str) -> None:
    edited = Editor.load(name).edit(list(TEXTS[name]))
    assert [one.text for one in edited] == list(TEXTS[name].values())


@pytest.mark.parametrize("name", LEAST)
def test_it_is_right(name: str) -> None:
    editor = Editor.load(name)
    assert editor.run.data is None, "anyone can make its data again"
    pairs = load_pairs(editor.run)["test"].take(slice(300))
    scores = evaluate(editor.programmer, editor.method, pairs).means()
    assert scores[editor.method.task.metrics[0]] > LEAST[name]


def test_it_answers_from_any_folder_and_stays_as_it_came(tmp_path: Path) -> None:
    before = sorted(path.name for path in checkpoints.find("aor").iterdir())
    said = subprocess.run([*COMMAND, "edit", "aor", "6 10 9 5 2"], capture_output=True, text=True, cwd=tmp_path)
    assert said.stdout.split()[-2:] == ["==", "2"], said.stderr
    with pytest.raises(UserError, match="stays as it came"):
        tune(Path("aor"))
    made = subprocess.run([*COMMAND, "export", "aor", "--out", "own"], capture_output=True, text=True, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    assert Editor.load(tmp_path / "own").edit(["6 10 9 5 2"])[0].finished
    assert sorted(path.name for path in checkpoints.find("aor").iterdir()) == before


def test_a_single_text_is_not_taken_for_many() -> None:
    with pytest.raises(UserError, match="a list of texts"):
        Editor.load("aor").edit("6 10 9 5 2")


def test_the_server_takes_them_if_it_is_told_nothing() -> None:
    assert {*LEAST, *TEXTS} <= set(Shelf.load([]).editors)
