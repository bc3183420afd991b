"""Which data a run and its scores are of: by content, from whatever folder a command is run."""

import json
import random
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from stepedit.evaluation.scores import read_scores
from stepedit.inference.model_folder import read_config

COMMAND = [sys.executable, "-c", "from stepedit.cli.main import main; main()"]
SMALL = ["--hidden-size", "16", "--num-heads", "2", "--num-layers", "1", "--batch-size", "16", "--threads", "1"]


def stepedit(*arguments: object, folder: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, input=stdin)


def pairs(seed: int) -> str:
    words = ["".join(random.Random(f"{seed}-{number}").choices("abcdefk", k=7)) for number in range(200)]
    return "".join(f"{word.replace('k', 'q')}\t{word}\n" for word in words)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A folder with data and a run of them, both named relatively, and a folder with other data of the same name."""
    for name, seed in (("home", 0), ("away", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pairs.tsv").write_text(pairs(seed))
    made = stepedit("train", "--data", "pairs.tsv", *SMALL, "--max-epochs", 1, "--out", "run", folder=tmp_path / "home")
    assert made.returncode == 0, made.stderr
    return tmp_path / "home"


def test_a_run_finds_its_data_from_any_folder(home: Path) -> None:
    run = read_config(home / "run")
    assert run.data == str(home / "pairs.tsv")
    assert run.data_hash == sha256((home / "pairs.tsv").read_bytes()).hexdigest()
    here = stepedit("evaluate", "run", "--json", folder=home)
    away = stepedit("evaluate", home / "run", "--json", folder=home.parent / "away")
    assert here.stdout == away.stdout != ""
    scores = json.loads(here.stdout)
    assert (scores["data"], scores["data_hash"], scores["own_data"]) == ("pairs.tsv", run.data_hash, True)


def test_changed_data_are_refused_unless_asked_for(home: Path) -> None:
    assert stepedit("evaluate", "run", folder=home).returncode == 0
    own = (home / "run" / "scores-test.json").read_bytes()
    (home / "pairs.tsv").write_text(pairs(2))
    for command in (["evaluate", "run"], ["tune", "run"], ["train", "--resume", "--out", "run"]):
        refused = stepedit(*command, folder=home)
        assert (refused.returncode, refused.stderr.count("\n")) == (2, 1), refused.stderr
        assert f"the data in {home / 'pairs.tsv'} are not those this run was trained on" in refused.stderr
    asked = stepedit("evaluate", "run", "--changed-data", "--json", folder=home)
    assert json.loads(asked.stdout)["own_data"] is False
    digest = sha256((home / "pairs.tsv").read_bytes()).hexdigest()
    assert (home / "run" / f"scores-other-pairs-{digest[:8]}-test.json").exists()
    assert (home / "run" / "scores-test.json").read_bytes() == own


def test_scores_of_other_data_have_names_of_their_own(home: Path) -> None:
    assert stepedit("evaluate", "run", folder=home).returncode == 0
    before = {path.name: path.read_bytes() for path in (home / "run").iterdir()}
    other = home.parent / "away" / "pairs.tsv"
    shown = stepedit("evaluate", "run", "--data", other, "--beam-size", 2, folder=home)
    assert "all: 200 pairs, of pairs.tsv, beam size 2" in shown.stdout, shown.stderr
    digest = sha256(other.read_bytes()).hexdigest()
    name = f"other-pairs-{digest[:8]}-all-beam-2"
    after = {path.name: path.read_bytes() for path in (home / "run").iterdir()}
    assert set(after) - set(before) == {f"scores-{name}.json", f"predictions-{name}.jsonl"}
    assert all(after[name] == content for name, content in before.items())
    scores = json.loads(after[f"scores-{name}.json"])
    assert (scores["data"], scores["data_hash"], scores["own_data"]) == ("pairs.tsv", digest, False)
    assert (scores["beam_size"], scores["min_confidence"]) == (2, 0.0)


def test_scores_before_and_after_tuning_have_other_names(home: Path) -> None:
    run = home / "run"
    assert stepedit("evaluate", "run", folder=home).returncode == 0
    (run / "tuned.json").write_text('{"min_confidence": 0.75}')
    assert read_scores(run) is None, "those at the model's threshold are missing now"
    assert stepedit("evaluate", "run", folder=home).returncode == 0
    stored = {path.name: json.loads(path.read_text())["min_confidence"] for path in run.glob("scores-*.json")}
    assert stored == {"scores-test.json": 0.0, "scores-test-confidence-0.75.json": 0.75}
    found = read_scores(run)
    assert found is not None
    assert found.min_confidence == 0.75


def test_what_is_shared_holds_no_local_path(home: Path) -> None:
    assert str(home) not in (home / "run" / "README.md").read_text()
    made = stepedit("export", "run", "--out", "shared", folder=home)
    assert made.returncode == 0, made.stderr
    for path in (home / "shared").iterdir():
        assert str(home.parent).encode() not in path.read_bytes(), path.name
    digest = read_config(home / "run").data_hash
    assert f"Training data: `pairs.tsv`, SHA-256 `{digest}`" in (home / "shared" / "README.md").read_text()
    assert stepedit("edit", "shared", "abq", folder=home).returncode == 0
    alone = stepedit("evaluate", "shared", folder=home)
    assert (alone.returncode, "--data" in alone.stderr) == (2, True), "pairs.tsv of the current folder may be any"
    assert stepedit("evaluate", "shared", "--data", "pairs.tsv", folder=home).returncode == 0
    shutil.copy(home / "pairs.tsv", home / "shared")
    assert stepedit("evaluate", "shared", folder=home).returncode == 0


def test_pairs_of_standard_input_move_with_the_run(tmp_path: Path) -> None:
    options = ["--data", "-", *SMALL, "--max-epochs", 1]
    made = stepedit("train", *options, "--out", "run", folder=tmp_path, stdin=pairs(3))
    assert made.returncode == 0, made.stderr
    assert read_config(tmp_path / "run").data == str(tmp_path / "run" / "pairs.tsv")
    (tmp_path / "run").rename(tmp_path / "moved")
    scored = stepedit("evaluate", "moved", folder=tmp_path)
    assert scored.returncode == 0, scored.stderr
    resumed = stepedit("train", "--resume", "--out", "moved", folder=tmp_path)
    assert resumed.returncode == 0, resumed.stderr


def test_the_hash_of_a_folder_is_that_of_its_splits(tmp_path: Path) -> None:
    from stepedit.data.location import Location

    for name in ("train_x.txt", "train_y.txt", "val_x.txt", "val_y.txt"):
        (tmp_path / name).write_text("a\n")
    before = Location(tmp_path).hash()
    (tmp_path / "notes.md").write_text("mine")
    assert Location(tmp_path).hash() == before
    (tmp_path / "val_y.txt").write_text("b\n")
    assert Location(tmp_path).hash() != before
    assert (
        Location(tmp_path / "train_x.txt", (tmp_path / "val_y.txt",)).hash()
        != Location(tmp_path / "train_x.txt").hash()
    )
