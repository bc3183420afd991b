"""A person's own pairs, from a file to an editor: the commands, run as a user runs them."""

import json
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit import corruption, datasets
from stepedit.changes import Change, applied
from stepedit.commands.evaluate import MOST_GROUPS, ranges
from stepedit.datasets import Lines
from stepedit.editor import Editor
from stepedit.errors import DataError
from stepedit.lexicon import Lexicon
from stepedit.registry import TASKS
from stepedit.tasks.parallel_text import ParallelText
from tests.test_cli_training import COMMAND, stepedit

SMALL = ["--hidden", "32", "--heads", "2", "--layers", "1", "--batch", "32", "--rate", "0.005", "--threads", "1"]
QUIRK = "مرحبا\u200f \x00 😀 e\u0301 \ttab"


def words(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return sorted({"".join(rng.choices("abcdefgk", k=rng.randint(3, 8))) for _ in range(count)})


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every k was typed as a q; some lines have none."""
    path = tmp_path_factory.mktemp("text") / "pairs.tsv"
    lines = [" ".join(pair) for pair in zip(words(600), words(600, seed=1), strict=False)]
    path.write_text("".join(f"{line.replace('k', 'q')}\t{line}\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def run(pairs: Path) -> Path:
    folder = pairs.parent / "run"
    made = stepedit("train", "--data", pairs, *SMALL, "--max-epochs", 20, "--out", folder)
    assert made.returncode == 0, made.stderr
    assert "text recurrence online" in made.stdout
    assert "100.0% of the pairs can be expressed" in made.stdout
    assert "divided by target" in made.stdout
    return folder


def test_what_was_learned_holds_for_words_never_seen(run: Path) -> None:
    shown = json.loads(stepedit("evaluate", run, "--json").stdout)
    edited, left = shown["summary"]["edited"], shown["summary"]["left as it is"]
    assert edited["exact"] > 0.9 > left["exact"]
    assert edited["f0.5"] > 0.9
    assert left["recall"] == 0.0 < left["precision"]
    assert edited["cer"] < left["cer"] / 5
    assert shown["metrics"]["sequence"][0] == pytest.approx(edited["exact"])
    shown_too = stepedit("evaluate", run, "--split", "val", "--chrf").stdout
    assert "left as it is" in shown_too
    assert "chrf" in shown_too


def test_lines_come_back_in_order_with_their_own_ends(run: Path) -> None:
    lines = ["aqa", "", "bab", QUIRK.replace("\n", ""), "qqb " * 40]
    given = "\n".join(lines[:2]) + "\r\n" + "\n".join(lines[2:])  # the last without an end
    done = subprocess.run([*COMMAND, "edit", str(run)], input=given.encode(), capture_output=True, check=True)
    results = done.stdout.decode().split("\n")
    assert results[:3] == ["aka", "\r", "bab"]
    assert "q" not in results[4]
    assert len(results) == len(lines)
    spread = subprocess.run(
        [*COMMAND, "edit", str(run), "--workers", "2"], input=given.encode(), capture_output=True, check=True
    )
    assert spread.stdout == done.stdout


def test_every_change_has_its_place_and_can_be_refused(run: Path) -> None:
    told = json.loads(stepedit("edit", run, "aqa bab qeg " * 10, "--json").stdout)
    changes = [Change(**change) for change in told["changes"]]
    assert len(changes) == 20
    assert applied(told["source"], changes) == told["text"] == told["source"].replace("q", "k")
    assert applied(told["source"], changes[1:]).count("q") == 1
    assert all(told["text"][c.result_start : c.result_stop] == c.after for c in changes)
    assert all(0 < change.confidence <= 1 for change in changes)
    drawn = stepedit("edit", run, "aqa", "--trace").stdout
    assert "a[q→k]a" in drawn


def test_onnx_graphs_edit_as_the_weights_do(run: Path, tmp_path: Path) -> None:
    made = stepedit("export", run, "--onnx", "--out", tmp_path / "graphs")
    assert (made.returncode, made.stderr) == (0, "")
    assert not (tmp_path / "graphs" / "model.safetensors").exists()
    lines = "aqa bab\n\n" + "qek " * 50 + "日本\n"
    here, there = (stepedit("edit", place, given=lines).stdout for place in (run, tmp_path / "graphs"))
    assert here == there != lines
    (tmp_path / "graphs" / "look.onnx").write_bytes(b"no graph")
    assert "look.onnx: damaged" in stepedit("edit", tmp_path / "graphs", "aqa").stderr


def test_tuning_keeps_the_best_and_can_be_overruled(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    assert stepedit("export", run, "--out", copy, "--full").returncode == 0
    shown = stepedit("tune", copy)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.count("<- taken") == 1
    (copy / "tuned.json").write_text('{"min_confidence": 1.0}')
    assert stepedit("edit", copy, "aqa").stdout == "aqa\n"
    assert stepedit("edit", copy, "aqa", "--min-confidence", "0").stdout == "aka\n"
    (copy / "tuned.json").write_text('{"min_confidence": "x"}')
    assert "tuned.json: damaged" in stepedit("edit", copy, "aqa").stderr


def test_a_list_of_words_decides_what_the_beam_finds(run: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("aqa 12\nbab 3\n")
    shown = stepedit("edit", run, "aqa", "--beam", "8", "--lexicon", tmp_path / "words.txt")
    assert shown.stdout == "aqa\n", "the only one of the list, however unlikely"
    scored = stepedit("evaluate", run, "--beam", "4", "--lexicon", tmp_path / "words.txt", "--json")
    assert json.loads(scored.stdout)["lexicon"] is True
    assert (run / "scores-test-beam-4-lexicon.json").exists()
    (tmp_path / "empty.txt").write_text("1\n...\n")
    (tmp_path / "near.txt").write_text("akattaku\n")
    shown = stepedit("edit", run, "Aqattaqu", "--lexicon", tmp_path / "near.txt", "--trace")
    assert shown.stdout.endswith("Akattaku\n")
    assert not shown.stderr, "the list accepts it"
    assert "a word on each line" in stepedit("edit", run, "aqa", "--lexicon", tmp_path / "empty.txt").stderr


@pytest.mark.parametrize("method", ["tagging", "end2end"])
def test_the_other_methods_read_the_same_pairs(method: str, pairs: Path, tmp_path: Path) -> None:
    made = stepedit("train", "--data", pairs, "--method", method, *SMALL, "--max-epochs", 1, "--out", tmp_path / "r")
    assert made.returncode == 0, made.stderr
    assert stepedit("edit", tmp_path / "r", given=f"{QUIRK}\n").returncode == 0


def test_word_level_learns_capitals_and_full_stops_for_words_it_does_not_know(tmp_path: Path) -> None:
    rng = random.Random(1)
    known = words(40)
    lines = [f"{rng.choice(known)} {rng.choice(known)} {rng.choice(known)}." for _ in range(500)]
    (tmp_path / "right.txt").write_text("".join(f"{line.capitalize()}\n" for line in lines))
    (tmp_path / "wrong.txt").write_text("".join(f"{line[:-1]}\n" for line in lines))
    made = stepedit(
        *("train", "--data", tmp_path / "wrong.txt", "--targets", tmp_path / "right.txt", "--level", "word"),
        *(*SMALL, "--max-epochs", 10, "--out", tmp_path / "r"),
    )
    assert made.returncode == 0, made.stderr
    assert stepedit("edit", tmp_path / "r", "zyxxy plugh zork").stdout == "Zyxxy plugh zork.\n"


def test_pairs_on_standard_input_are_kept_for_going_on(pairs: Path, tmp_path: Path) -> None:
    made = stepedit("train", "--data", "-", *SMALL, "--max-epochs", 1, "--out", tmp_path / "r", given=pairs.read_text())
    assert made.returncode == 0, made.stderr
    assert stepedit("evaluate", tmp_path / "r").returncode == 0
    again = stepedit("evaluate", tmp_path / "r", "--data", pairs)
    assert "all: " in again.stdout, again.stderr


@pytest.mark.parametrize(
    ("name", "content", "options", "complaint"),
    [
        ("p.tsv", b"a\ta\nb\tb\nc\tc\n", [], "every source is its target already"),
        ("p.tsv", b"a\tb\nc\tb\n", [], "1 different targets; train, val and test need one each"),
        ("p.csv", b"x,y\na,b\n", ["--source", "wrong"], "no column 'wrong'; the columns are: x, y"),
        ("p.tsv", b"\x89PNG\r\n\x1a\n\x00\xff", [], "not UTF-8"),
        ("p.tsv", b"", [], "the file is empty"),
        ("p.doc", b"a\tb\n", [], "unknown form '.doc'"),
        ("p.tsv", b"a\tb\nc\td\ne\tf\n", ["--level", "line"], "level: "),
        ("p.tsv", b"a\tb\nc\td\ne\tf\n", ["--targets", "nowhere.txt"], "nowhere.txt: no such file"),
        ("p.tsv", b"a\tb\nc\td\ne\tf\n", ["--option", "known=x"], "unknown option 'known'"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_line(
    name: str, content: bytes, options: list[str], complaint: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    made = stepedit("train", "--data", name, *options, "--max-epochs", 1, "--out", "r", folder=tmp_path)
    assert made.returncode == 2
    assert complaint in made.stderr
    assert made.stderr.count("\n") == 1
    assert not (tmp_path / "r" / "config.json").exists()


def test_a_very_long_line_is_edited_whole(run: Path) -> None:
    text = "aqa bab " * 5_000
    result = Editor.load(run).edit([text])[0].text
    assert len(result) == len(text)
    assert result.count("k") > 4_800


def test_a_long_line_is_scored_as_the_line_it_is(run: Path, tmp_path: Path) -> None:
    long, short = "aqa bab " * 30 + "aza", "aqa bab"  # a z is never put right, so nothing of the line counts
    pairs = [(long, long.replace("q", "k").replace("z", "x")), (short, short.replace("q", "k"))]
    (tmp_path / "long.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    shown = json.loads(stepedit("evaluate", run, "--data", tmp_path / "long.tsv", "--json").stdout)
    assert (shown["pairs"], shown["summary"]["edited"]["exact"]) == (2, 0.5)


def test_many_groups_are_taken_together() -> None:
    groups = {length: (10, length / 100) for length in range(1, 51)}
    merged = ranges(groups)
    assert len(merged) <= MOST_GROUPS
    assert merged[0][0] == "1 to 5"
    assert sum(count for _, count, _ in merged) == 500
    assert merged[0][2] == pytest.approx(0.03)
    assert ranges({1: (5, 0.5), 3: (1, 1.0)}) == [("1", 5, 0.5), ("3", 1, 1.0)]


def test_a_line_of_a_million_letters_comes_back_whole() -> None:
    task = ParallelText(window=64)
    words = task.vocabulary.opened()
    text = "aqa bab " * 125_000
    parts = task.windows(words.ids(words.split(text)), words)
    assert words.text([token for part in parts for token in part]) == text
    assert len(task.encode([text], [text])) > 10_000


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), max_size=4))
def test_windows_of_any_text_are_the_text(texts: list[str]) -> None:
    of_words = ParallelText(window=7, known=tuple("abc"), brought=("a",))
    for task in (ParallelText(window=7), ParallelText(level="word", window=3), of_words):
        names = task.vocabulary.opened()
        for text in texts:
            row = names.ids(names.split(text))
            parts = task.windows(row, names)
            assert [token for part in parts for token in part] == row
            assert all(0 < len(part) <= task.window for part in parts if task.editable(part, names))


def test_what_was_learned_from_single_words_is_done_word_by_word() -> None:
    task = ParallelText(window=7, known=("a", "b", "'"), brought=("a",))
    words = task.vocabulary.opened()
    parts = task.windows(words.ids(words.split("ab, ba' — Ça7 abababababa")), words)
    assert [words.text(part) for part in parts] == ["ab", ",", " ", "ba'", " ", "—", " ", "Ça7", " ", "abababa", "baba"]
    assert [words.text(part) for part in parts if task.editable(part, words)] == ["ab", "ba'", "abababa", "baba"]
    code = task.windows(words.ids(words.split("http://ab.ba/a, a@b.a (ab)")), words)
    assert [words.text(part) for part in code if task.editable(part, words)] == ["ab"]


@given(text=st.text("ab. ", max_size=60), other=st.text("ab. ", max_size=60))
def test_long_pairs_are_cut_where_both_agree(text: str, other: str) -> None:
    task = ParallelText(window=8)
    encoded = task.encode([text], [text])
    assert "".join(task.vocabulary.decode(encoded.sources)) == text
    for source, target in task._cut(list(text), list(other)):
        assert len(source) <= task.window
        assert "".join(source) in text
        assert "".join(target) in other


@given(st.lists(st.tuples(st.text("ab", max_size=3), st.sampled_from("abcdefgh")), min_size=1, max_size=60))
def test_pairs_are_divided_by_target_and_none_is_lost(rows: list[tuple[str, str]]) -> None:
    lines = Lines([source for source, _ in rows], [target for _, target in rows], "f")
    if len(set(lines.targets)) < 3:
        with pytest.raises(DataError, match="different targets"):
            datasets.divided(lines)
        return
    parts = datasets.divided(lines)
    sides = [set(part.targets) for part in parts.values()]
    assert all(sides)
    assert sum(map(len, sides)) == len(set(lines.targets))
    assert sorted(pair for part in parts.values() for pair in zip(part.sources, part.targets, strict=True)) == sorted(
        rows
    )


def test_corrupted_text_is_what_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("Hello, World! It is 3.5 m.\nOK\n\n")
    made = stepedit("corrupt", "t.txt", "--out", "p.jsonl", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert rows == [
        {"source": "hello world it is 3.5 m", "target": "Hello, World! It is 3.5 m."},
        {"source": "ok", "target": "OK"},
    ]
    assert "exists already" in stepedit("corrupt", "t.txt", "--out", "p.jsonl", folder=tmp_path).stderr
    assert "did you mean 'case'" in stepedit("corrupt", "t.txt", "--drop", "cas", folder=tmp_path).stderr
    assert "nothing in it changes" in stepedit("corrupt", "t.txt", "--drop", "", folder=tmp_path).stderr
    rng = np.random.default_rng(0)
    assert corruption.spoiled("abc def", ["typos", "spaces"], 0.0, rng) == "abc def"
    assert corruption.spoiled("abcdef " * 9, ["typos"], 0.5, rng) != "abcdef " * 9


def test_every_installation_has_a_text_to_begin_with() -> None:
    lines = corruption.help_sentences()
    assert len(lines) > 1_000
    assert all(line[0].isupper() and line[-1] in ".!?:" for line in lines)


def test_a_lexicon_knows_words_whatever_their_capitals() -> None:
    lexicon = Lexicon(["The", "cat's"])
    assert lexicon.knows("THE cat's, 12!")
    assert not lexicon.knows("the dog")
    assert lexicon.knows("12"), "there is no word in it that is not known"
    assert Lexicon(["हिन्दी", "भाषा", "caf\u00e9", "don't", "e-mail"]).knows("हिन्दी भाषा cafe\u0301 Don’t e-mail")
    assert not Lexicon(["हि"]).knows("हिन्दी")


def test_what_edits_bring_is_learned_from_the_pairs_and_what_they_cannot_is_said() -> None:
    sources = [f"w{i} teh end" for i in range(1_200)]
    targets = [f"w{i} the end" + (f" odd{i}" if i < 3 else "") for i in range(1_200)]
    task = ParallelText.for_data(sources, targets, {"level": "word"})
    pairs = task.encode(sources, targets)
    can = task.sayable(pairs, task.edits(pairs.sources, pairs.targets))
    assert (~can).sum() == 3
    assert " the" in task.brought
    moved = task.encode(["plugh teh xyzzy"], ["teh plugh xyzzy"])
    assert task.sayable(moved, task.edits(moved.sources, moved.targets)).all(), "what is in the text can be moved"
    assert TASKS["text"] is ParallelText
