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

LEAST = {"aor": 0.75, "aes": 0.9, "aec": 0.55}  # of the headline figure on 300 pairs it has not seen
COMMAND = [sys.executable, "-c", "from stepedit.cli import main; main()"]


def test_they_are_there() -> None:
    assert set(checkpoints.shipped_models()) == set(LEAST)


@pytest.mark.parametrize("name", LEAST)
def test_it_is_small_says_how_it_was_made_and_is_right(name: str) -> None:
    folder = checkpoints.find(name)
    assert checkpoints.is_shipped(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) < 2_000_000
    card = (folder / "README.md").read_text()
    assert f"stepedit train {name} " in card
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


def test_the_server_takes_them_if_it_is_told_nothing() -> None:
    assert set(LEAST) <= set(Shelf.load([]).editors)
