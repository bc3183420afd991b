"""M2 and several references on the command line."""

import json
from pathlib import Path

import pytest

from stepedit.data.m2 import format_m2
from tests.cli.test_train import stepedit

TINY = [
    *("--hidden-size", "8", "--num-heads", "1", "--num-layers", "1", "--batch-size", "8"),
    *("--max-steps", "4", "--eval-every", "1", "--threads", "1"),
]
TEXTS = [
    (f"teh {'abcdefg'[n % 7] * (n // 7 + 1)}", [f"{w} {'abcdefg'[n % 7] * (n // 7 + 1)}" for w in ("the", "a")])
    for n in range(60)
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that was trained on M2 with two annotators, and the same data as parallel files and JSONL."""
    path = tmp_path_factory.mktemp("formats")
    (path / "pairs.m2").write_text("".join(format_m2(*text) for text in TEXTS))
    (path / "x").write_text("".join(f"{source}\n" for source, _ in TEXTS))
    for number in (0, 1):
        (path / f"y{number}").write_text("".join(f"{references[number]}\n" for _, references in TEXTS))
    rows = [json.dumps({"source": source, "target": references}) for source, references in TEXTS]
    (path / "pairs.jsonl").write_text("".join(f"{row}\n" for row in rows))
    trained = stepedit("train", "--data", path / "pairs.m2", "--level", "word", *TINY, "--out", path / "run")
    assert trained.returncode == 0, trained.stderr
    return path


def test_each_reference_is_a_training_pair_and_a_test_text_has_all_of_them(folder: Path) -> None:
    scored = stepedit("evaluate", folder / "run", "--json")
    assert scored.returncode == 0, scored.stderr
    scores = json.loads(scored.stdout)
    assert scores["references"] == 2
    lines = [json.loads(line) for line in (folder / "run" / "predictions-test.jsonl").read_text().splitlines()]
    assert len(lines) == scores["pairs"]
    assert all(len(line["references"]) == 2 and line["references"][0] == line["target"] for line in lines)
    assert len({line["source"] for line in lines}) == len(lines), "a text with several references is one text"


@pytest.mark.parametrize("data", [["pairs.m2"], ["pairs.jsonl"], ["x", "--target-file", "y0", "--target-file", "y1"]])
def test_the_formats_have_the_same_scores(folder: Path, data: list[str]) -> None:
    paths = [part if part.startswith("-") else str(folder / part) for part in data]
    scored = stepedit("evaluate", folder / "run", "--data", *paths, "--json")
    assert scored.returncode == 0, scored.stderr
    scores = json.loads(scored.stdout)
    assert (scores["pairs"], scores["references"], scores["unchanged"]) == (60, 2, 0)
    baseline = scores["summary"]["most frequent replacement"]
    # `teh` became `the` as often as `a` in training: a tie stays
    assert baseline == scores["summary"]["copied source"]
    inspected = stepedit("inspect", *paths)
    assert inspected.returncode == 0, inspected.stderr
    assert inspected.stdout.splitlines()[3].split()[:3] == ["all", "60", "120"]


def test_training_takes_several_target_files_and_finds_them_again(folder: Path) -> None:
    targets = ["--target-file", folder / "y0", "--target-file", folder / "y1"]
    out = folder / "parallel"
    trained = stepedit("train", "--data", folder / "x", *targets, "--level", "word", *TINY, "--out", out)
    assert trained.returncode == 0, trained.stderr
    assert json.loads((out / "config.json").read_text())["target_file"] == [str(folder / "y0"), str(folder / "y1")]
    assert json.loads(stepedit("evaluate", out, "--json").stdout)["references"] == 2
    resumed = stepedit("train", "--resume", "--data", folder / "x", *targets, "--max-steps", 5, "--out", out)
    assert resumed.returncode == 0, resumed.stderr
    other = stepedit("train", "--resume", *targets[:2], "--max-steps", 6, "--out", out)
    assert (other.returncode, other.stderr.count("\n")) == (2, 1)
    assert "--target-file is" in other.stderr


def test_m2_that_does_not_parse_is_refused_in_one_line(folder: Path) -> None:
    (folder / "bad.m2").write_text("S a b\nA 0 9|||X|||c|||REQUIRED|||-NONE-|||0\n")
    for command in (["evaluate", folder / "run", "--data"], ["inspect"], ["train", "--out", folder / "new", "--data"]):
        made = stepedit(*command, folder / "bad.m2")
        assert (made.returncode, made.stderr.count("\n")) == (2, 1)
        assert f"{folder / 'bad.m2'}:2: tokens 0 to 9 of a sentence of 2" in made.stderr


def test_edit_writes_m2() -> None:
    made = stepedit("edit", "spelling", "a catagory  of it", "it is fine", "--m2")
    assert made.stdout == (
        "S a catagory of it\nA 1 2|||R:OTHER|||category|||REQUIRED|||-NONE-|||0\n\n"
        "S it is fine\nA -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0\n\n"
    )
    for other in ("--json", "--trace"):
        made = stepedit("edit", "spelling", "x", "--m2", other)
        assert (made.returncode, made.stderr) == (
            2,
            f"stepedit: --m2 and {other} are two forms of output; choose one\n",
        )


def test_every_figure_of_text_says_which_scorer_it_is_from_and_which_baseline_is_missing(folder: Path) -> None:
    made = stepedit("evaluate", "spelling", "--data", folder / "pairs.m2")
    assert made.returncode == 0, made.stderr
    for label in ("edit precision (words, stepedit)", "edit F0.5 (words, stepedit)", "GLEU (stepedit)", "exact match"):
        assert f"\n{label} " in made.stdout
    assert "most frequent replacement: not available, because the model's training pairs are not here" in made.stdout


def test_errant_is_for_text_and_has_to_be_installed(folder: Path) -> None:
    made = stepedit("evaluate", "aor", "--errant")
    assert "ERRANT is for text; task aor has metrics of its own" in made.stderr


def test_white_space_around_targets_is_warned_about_and_can_be_stripped(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    rows = [{"source": f"teh end {number}", "target": f" the end {number} "} for number in range(60)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    limits = ("--max-steps", 1, "--hidden-size", 8, "--num-heads", 2, "--threads", 1)
    given = stepedit("train", "--data", path, *limits, "--out", tmp_path / "given")
    assert "100.0% of the targets begin or end with white space" in given.stderr
    assert "--strip" in given.stderr
    for option, edits in (((), "[→ ][ teh→ the] end 0[→ ]"), (("--strip",), "[ teh→ the] end 0\n")):
        assert f"edits    {edits}" in stepedit("inspect", path, "--level", "word", "--pairs", 1, *option).stdout
    stripped = stepedit("train", "--data", path, "--strip", *limits, "--out", tmp_path / "stripped")
    assert (stripped.returncode, stripped.stderr) == (0, "")
    config = json.loads((tmp_path / "stripped" / "config.json").read_text())
    assert config["strip"] is True
    scores = stepedit("evaluate", tmp_path / "stripped", "--json", "--split", "train")
    again = stepedit("evaluate", tmp_path / "stripped", "--json", "--data", path)
    texts = [example["target"] for shown in (scores, again) for example in json.loads(shown.stdout)["examples"]]
    assert texts
    assert all(text == text.strip() for text in texts)
