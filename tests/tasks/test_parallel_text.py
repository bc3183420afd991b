"""Your own pairs, from a file to an editor: the commands, run as a user runs them."""

import json
import random
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.cli.evaluate import MAX_GROUPS, ranges
from stepedit.data.dataset import load_splits
from stepedit.editing.edits import Edit
from stepedit.editing.trace import Change, apply_changes
from stepedit.errors import UserError
from stepedit.evaluation.evaluate import evaluate_pairs
from stepedit.inference import model_folder
from stepedit.inference.editor import Editor
from stepedit.registry import TASKS
from stepedit.tasks.parallel_text import ParallelText
from stepedit.text import noise
from stepedit.text.lexicon import Lexicon
from stepedit.text.tokenization import as_mark
from tests.cli.test_train import COMMAND, stepedit

SMALL = [
    *("--hidden-size", "32", "--num-heads", "2", "--num-layers", "1"),
    *("--batch-size", "32", "--learning-rate", "0.005", "--threads", "1"),
]
UNUSUAL = "مرحبا\u200f \x00 😀 e\u0301 \ttab"


def random_words(count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return sorted({"".join(rng.choices("abcdefgk", k=rng.randint(3, 8))) for _ in range(count)})


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every k was typed as a q; some lines have none."""
    path = tmp_path_factory.mktemp("text") / "pairs.tsv"
    lines = [" ".join(pair) for pair in zip(random_words(600), random_words(600, seed=1), strict=False)]
    path.write_text("".join(f"{line.replace('k', 'q')}\t{line}\n" for line in lines))
    return path


@pytest.fixture(scope="module")
def run(pairs: Path) -> Path:
    folder = pairs.parent / "run"
    trained = stepedit("train", "--data", pairs, *SMALL, "--max-epochs", 20, "--out", folder)
    assert trained.returncode == 0, trained.stderr
    assert "text recurrence augmented" in trained.stdout
    assert "100.0% of the pairs can be expressed" in trained.stdout
    assert "split by family" in trained.stdout
    return folder


def test_a_model_generalizes_to_unseen_words(run: Path) -> None:
    scores = json.loads(stepedit("evaluate", run, "--json").stdout)
    edited, copied = scores["summary"]["edited"], scores["summary"]["copied source"]
    assert edited["exact"][0] > 0.9 > copied["exact"][0]
    assert edited["f0.5"][0] > 0.9
    assert copied["recall"][0] == 0.0 < copied["precision"][0]
    assert edited["cer"][0] < copied["cer"][0] / 5
    assert edited["gleu"][0] > 0.8 > copied["gleu"][0]
    # most words are new in test, so that a dictionary of whole words knows few of them
    assert copied["f0.5"][0] <= scores["summary"]["most frequent replacement"]["f0.5"][0] < 0.3
    assert scores["metrics"]["sequence"] == pytest.approx(edited["exact"])
    assert scores["metrics"]["f0.5"] == pytest.approx(edited["f0.5"])
    assert (scores["headline"], scores["edit_unit"], scores["trained_on"]) == ("f0.5", "word", 0)
    table = stepedit("evaluate", run, "--split", "val", "--chrf").stdout
    assert "copied source" in table
    assert "edit F0.5 (words, stepedit)" in table
    assert "chrF (sacrebleu)" in table


def test_lines_are_printed_in_order_with_their_own_line_ends(run: Path) -> None:
    lines = ["aqa", "", "bab", UNUSUAL.replace("\n", ""), "qqb " * 40]
    given = "\n".join(lines[:2]) + "\r\n" + "\n".join(lines[2:])  # the last one without a line end
    edited = subprocess.run([*COMMAND, "edit", str(run)], input=given.encode(), capture_output=True, check=True)
    results = edited.stdout.decode().split("\n")
    assert results[:3] == ["aka", "\r", "bab"]
    assert "q" not in results[4]
    assert len(results) == len(lines)
    in_processes = subprocess.run(
        [*COMMAND, "edit", str(run), "--num-workers", "2"], input=given.encode(), capture_output=True, check=True
    )
    assert in_processes.stdout == edited.stdout


def test_every_change_has_its_span_and_can_be_left_out(run: Path) -> None:
    result = json.loads(stepedit("edit", run, "aqa bab qeg " * 10, "--json").stdout)
    changes = [Change(**change) for change in result["changes"]]
    assert len(changes) == 20
    assert apply_changes(result["source"], changes) == result["text"] == result["source"].replace("q", "k")
    assert apply_changes(result["source"], changes[1:]).count("q") == 1
    assert all(result["text"][c.result_start : c.result_stop] == c.after for c in changes)
    assert all(0 < change.confidence <= 1 for change in changes)
    assert "a[q→k]a" in stepedit("edit", run, "aqa", "--trace").stdout


def test_graphs_edit_the_same_as_the_weights(run: Path, tmp_path: Path) -> None:
    exported = stepedit("export", run, "--out", tmp_path / "graph")
    assert (exported.returncode, exported.stderr) == (0, "")
    assert not (tmp_path / "graph" / "model.safetensors").exists()
    shutil.copytree(run, tmp_path / "weights")
    (tmp_path / "weights" / "model.onnx").unlink()
    lines = "aqa bab\n\n" + "qek " * 50 + "日本\n"
    folders = (run, tmp_path / "graph", tmp_path / "weights")
    with_graph, exported_graph, with_weights = (stepedit("edit", folder, stdin=lines).stdout for folder in folders)
    assert with_graph == exported_graph == with_weights != lines
    (tmp_path / "graph" / "model.onnx").write_bytes(b"no graph")
    assert "model.onnx: damaged" in stepedit("edit", tmp_path / "graph", "aqa").stderr


def test_the_tuned_threshold_is_stored_and_can_be_overridden(run: Path, pairs: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    assert stepedit("export", run, "--out", copy, "--dtype", "float32").returncode == 0
    alone = stepedit("tune", copy)
    assert (alone.returncode, f"put {pairs.name} into {copy}" in alone.stderr) == (2, True), (
        "it has no path to its data"
    )
    shutil.copy(pairs, copy)
    tuned = stepedit("tune", copy)
    assert tuned.returncode == 0, tuned.stderr
    assert tuned.stdout.count("<- chosen") == 1
    (copy / "tuned.json").write_text('{"min_confidence": 1.0}')
    assert stepedit("edit", copy, "aqa").stdout == "aqa\n"
    assert stepedit("edit", copy, "aqa", "--min-confidence", "0").stdout == "aka\n"
    (copy / "tuned.json").write_text('{"min_confidence": "x"}')
    assert "tuned.json: damaged" in stepedit("edit", copy, "aqa").stderr


def test_tuning_on_clean_text_takes_the_lowest_threshold_that_leaves_it_alone(run: Path, tmp_path: Path) -> None:
    copy, clean = tmp_path / "copy", tmp_path / "clean.txt"
    assert stepedit("export", run, "--out", copy, "--dtype", "float32").returncode == 0
    shutil.copy(str(model_folder.read_config(run).data), copy)
    clean.write_text("bab cab\nabba\n" * 20)
    tuned = stepedit("tune", copy, "--clean", clean, "--max-changed-lines", "0")
    assert tuned.returncode == 0, tuned.stderr
    safe = json.loads((copy / "tuned.json").read_text())
    assert (safe["min_confidence"], safe["clean_lines"], safe["changed_lines"]) == (0, 40, 0)
    assert "clean text left alone" in safe["tuned_for"]
    clean.write_text("bab cab\n" * 19 + "aqa bab\n")
    tuned = stepedit("tune", copy, "--clean", clean, "--max-changed-lines", "0.05")
    assert tuned.stdout.splitlines()[-1] == "changed in the clean text: 1 of 40 words (2.50%), 1 of 20 lines (5.00%)"
    rows = json.loads(stepedit("tune", copy, "--clean", clean, "--max-changed-lines", "0.05", "--json").stdout)
    measured = [(row["changed_words"], row["changed_lines"]) for row in rows if "changed_words" in row]
    assert measured == [(0.025, 0.05)], "of the chosen threshold"
    assert "name it with --clean FILE" in stepedit("tune", copy, "--max-change-rate", "0.01").stderr
    assert "no such file" in stepedit("tune", copy, "--clean", tmp_path / "none").stderr


def test_a_lexicon_decides_between_the_texts_that_the_beam_finds(run: Path, tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("aqa 12\nbab 3\n")
    edited = stepedit("edit", run, "aqa", "--beam-size", "8", "--lexicon", tmp_path / "words.txt")
    assert edited.stdout == "aqa\n", "the only known word, however improbable"
    scored = stepedit("evaluate", run, "--beam-size", "4", "--lexicon", tmp_path / "words.txt", "--json")
    assert json.loads(scored.stdout)["lexicon"] is True
    assert len(list(run.glob("scores-test-beam-4-lexicon-????????.json"))) == 1
    (tmp_path / "empty.txt").write_text("1\n...\n")
    (tmp_path / "near.txt").write_text("akattaku\n")
    edited = stepedit("edit", run, "Aqattaqu", "--lexicon", tmp_path / "near.txt", "--trace")
    assert edited.stdout.endswith("Akattaku\n")
    assert not edited.stderr, "the lexicon accepts it"
    assert "one word on each line" in stepedit("edit", run, "aqa", "--lexicon", tmp_path / "empty.txt").stderr


@pytest.mark.parametrize("method", ["tagging", "end2end"])
def test_single_pass_methods_train_on_the_same_pairs(method: str, pairs: Path, tmp_path: Path) -> None:
    options = ["--data", pairs, "--method", method, *SMALL, "--max-epochs", 1]
    trained = stepedit("train", *options, "--out", tmp_path / "r")
    assert trained.returncode == 0, trained.stderr
    assert stepedit("edit", tmp_path / "r", stdin=f"{UNUSUAL}\n").returncode == 0


def test_word_level_learns_case_and_full_stops_for_unknown_words(tmp_path: Path) -> None:
    rng = random.Random(1)
    known = random_words(40)
    lines = [f"{rng.choice(known)} {rng.choice(known)} {rng.choice(known)}." for _ in range(500)]
    (tmp_path / "targets.txt").write_text("".join(f"{line.capitalize()}\n" for line in lines))
    (tmp_path / "sources.txt").write_text("".join(f"{line[:-1]}\n" for line in lines))
    trained = stepedit(
        *("train", "--data", tmp_path / "sources.txt", "--target-file", tmp_path / "targets.txt", "--level", "word"),
        *(*SMALL, "--max-epochs", 20, "--out", tmp_path / "r"),
    )
    assert trained.returncode == 0, trained.stderr
    assert stepedit("edit", tmp_path / "r", "zyxxy plugh zork").stdout == "Zyxxy plugh zork.\n"


def test_pairs_from_standard_input_are_kept_in_the_runs_folder(pairs: Path, tmp_path: Path) -> None:
    options = ["--data", "-", *SMALL, "--max-epochs", 1]
    trained = stepedit("train", *options, "--out", tmp_path / "r", stdin=pairs.read_text())
    assert trained.returncode == 0, trained.stderr
    assert stepedit("evaluate", tmp_path / "r").returncode == 0
    other = stepedit("evaluate", tmp_path / "r", "--data", pairs)
    assert "all: " in other.stdout, other.stderr


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("p.tsv", b"a\ta\nb\tb\nc\tc\n", [], "every source equals its target"),
        ("p.tsv", b"a\tb\nc\tb\n", [], "share a text or a stem): 1; train, val and test need one each"),
        ("p.csv", b"x,y\na,b\n", ["--source-column", "wrong"], "no column 'wrong'; the columns are: x, y"),
        ("p.tsv", b"\x89PNG\r\n\x1a\n\x00\xff", [], "not UTF-8"),
        ("p.tsv", b"", [], "the file is empty"),
        ("p.doc", b"a\tb\n", [], "unknown format '.doc'"),
        ("p.tsv", b"a\tb\nc\td\ne\tf\n", ["--level", "line"], "level: "),
        ("p.tsv", b"a\tb\nc\td\ne\tf\n", ["--target-file", "nowhere.txt"], "nowhere.txt: no such file"),
        ("p.tsv", b"a\tb\nc\td\ne\tf\n", ["--task-arg", "known_tokens=x"], "unknown option 'known_tokens'"),
    ],
)
def test_unusable_pairs_are_reported_in_one_line(
    name: str, content: bytes, options: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    trained = stepedit("train", "--data", name, *options, "--max-epochs", 1, "--out", "r", folder=tmp_path)
    assert trained.returncode == 2
    assert message in trained.stderr
    assert trained.stderr.count("\n") == 1
    assert not (tmp_path / "r" / "config.json").exists()


def test_a_very_long_line_is_edited_completely(run: Path) -> None:
    text = "aqa bab " * 5_000
    result = Editor.load(run).edit([text])[0].text
    assert len(result) == len(text)
    assert result.count("k") > 4_800


def test_a_long_line_is_scored_as_a_whole(run: Path, tmp_path: Path) -> None:
    long, short = "aqa bab " * 30 + "aza", "aqa bab"  # a z is never corrected, so the long line is wrong
    pairs = [(long, long.replace("q", "k").replace("z", "x")), (short, short.replace("q", "k"))]
    (tmp_path / "long.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    scores = json.loads(stepedit("evaluate", run, "--data", tmp_path / "long.tsv", "--json").stdout)
    assert (scores["pairs"], scores["summary"]["edited"]["exact"][0]) == (2, 0.5)


def test_many_groups_of_a_table_are_merged() -> None:
    groups = {length: (10, length / 100) for length in range(1, 51)}
    merged = ranges(groups)
    assert len(merged) <= MAX_GROUPS
    assert merged[0][0] == "1 to 5"
    assert sum(count for _, count, _ in merged) == 500
    assert merged[0][2] == pytest.approx(0.03)
    assert ranges({1: (5, 0.5), 3: (1, 1.0)}) == [("1", 5, 0.5), ("3", 1, 1.0)]


def test_the_segments_of_a_million_characters_are_the_whole_text() -> None:
    task = ParallelText(window=64)
    vocabulary = task.vocabulary.opened()
    text = "aqa bab " * 125_000
    segments = task.segments(vocabulary.ids(vocabulary.split(text)), vocabulary)
    assert vocabulary.text([token for segment in segments for token in segment.written()]) == text
    assert len(task.encode([text], [text])) > 10_000


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), max_size=4))
def test_the_segments_of_any_text_are_the_text(texts: list[str]) -> None:
    word_by_word = ParallelText("char", "word", window=7, known_tokens=tuple("abc"), insertable_tokens=("a",))
    for task in (ParallelText(window=7), ParallelText(level="word", window=3), word_by_word):
        vocabulary = task.vocabulary.opened()
        for text in texts:
            row = vocabulary.ids(vocabulary.split(text))
            segments = task.segments(row, vocabulary)
            assert [token for segment in segments for token in segment.written()] == row
            assert all(0 < len(segment.tokens) <= task.window for segment in segments if segment.editable)


@pytest.mark.parametrize(
    ("others", "args", "segmentation"),
    [
        ([], {}, "word"),
        ([("alot", "a lot")] * 2, {}, "word"),
        ([("alot", "a lot")] * 20, {}, "line"),
        ([], {"segmentation": "line"}, "line"),
        ([("alot", "a lot")] * 20, {"segmentation": "word"}, "word"),
        ([], {"level": "word"}, "line"),
    ],
)
def test_the_segmentation_is_chosen_when_the_task_is_fitted_and_saved(
    others: list[tuple[str, str]], args: dict[str, str], segmentation: str
) -> None:
    pairs = [("teh", "the"), ("wrod", "word")] * 49 + others
    task = ParallelText.for_data([source for source, _ in pairs], [target for _, target in pairs], args)
    assert task.segmentation == segmentation
    assert ParallelText.from_args(asdict(task)) == task
    parts = task.segments(task.vocabulary.ids(task.vocabulary.split("teh wrod")), task.vocabulary)
    assert [part.is_word for part in parts].count(True) == (2 if segmentation == "word" else 0)


def test_words_are_segments_of_characters_only() -> None:
    with pytest.raises(
        UserError, match=r"^task text: segmentation=word edits the characters of a word, so it needs level=char$"
    ):
        ParallelText.from_args({"level": "word", "segmentation": "word"})


@pytest.mark.parametrize("tokens", [{"known_tokens": ["a", "a"]}, {"insertable_tokens": ["zz"]}])
def test_a_folder_names_each_token_once_and_no_other_may_be_inserted(tokens: dict[str, list[str]]) -> None:
    with pytest.raises(UserError, match="known_tokens are distinct, and insertable_tokens are among them"):
        ParallelText.from_args({"known_tokens": ["a", "b"], "insertable_tokens": ["b"]} | tokens)


def test_a_task_learned_from_single_words_edits_word_by_word() -> None:
    task = ParallelText("char", "word", window=7, known_tokens=("a", "b", "'"), insertable_tokens=("a",))
    vocabulary = task.vocabulary.opened()

    def segments(text: str) -> list[tuple[str, bool]]:
        found = task.segments(vocabulary.ids(vocabulary.split(text)), vocabulary)
        return [(vocabulary.text(segment.tokens), segment.editable) for segment in found]

    parts = segments("ab, ba' — Ça7 abababababa")
    assert [text for text, _ in parts] == ["ab", ",", " ", "ba", "'", " ", "—", " ", "Ça7", " ", "abababababa"]
    assert [text for text, editable in parts if editable] == ["ab", "ba"], "the last one is longer than a window"
    code = segments("http://ab.ba/a, a@b.a (ab)")
    assert [text for text, editable in code if editable] == ["ab"]


@given(text=st.text("ab. ", max_size=60), other=st.text("ab. ", max_size=60))
def test_long_pairs_are_cut_where_source_and_target_agree(text: str, other: str) -> None:
    task = ParallelText(window=8)
    encoded = task.encode([text], [text])
    assert "".join(task.vocabulary.decode(encoded.sources)) == text
    for source, target in task._cut(list(text), list(other)):
        assert len(source) <= task.window
        assert "".join(source) in text
        assert "".join(target) in other


def test_unknown_words_come_back_however_many_vocabularies_are_in_use() -> None:
    """Ids of unknown tokens belong to the task that gave them, not to a cache that may forget them."""
    tasks = [ParallelText(level="word", known_tokens=(f"w{index}",), insertable_tokens=()) for index in range(12)]
    texts = [[f"w{index} xyzzy{index} plugh", f"plugh{index} w{index}"] for index in range(12)]
    pairs = [task.encode(lines, lines) for task, lines in zip(tasks, texts, strict=True)]
    again = [task.encode(["zork plugh"], ["frob"]) for task in tasks]
    for task, lines, encoded, other in zip(tasks, texts, pairs, again, strict=True):
        assert task.vocabulary.decode(encoded.sources) == lines
        assert task.vocabulary.decode(other.targets) == ["frob"]
    equal = ParallelText(level="word", known_tokens=("w0",), insertable_tokens=())
    assert equal == tasks[0]
    assert equal.vocabulary is not tasks[0].vocabulary


def test_the_best_checkpoint_is_the_one_with_the_best_f_score(run: Path) -> None:
    reports = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert reports[-1]["best"] == max(report["metrics"]["f0.5"] for report in reports)
    assert all(set(report["metrics"]) == {"f0.5", "sequence"} for report in reports)
    config = model_folder.read_config(run)
    method = model_folder.make_method(config)
    validation = load_splits(config, method.task)["val"]
    means = evaluate_pairs(Editor.load(run).policy, method, validation).means()
    assert means["f0.5"] == pytest.approx(reports[-1]["best"], abs=0.02)


def test_corrupt_makes_the_noise_that_was_asked_for(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("Hello, World! It is 3.5 m.\nOK\n\n")
    made = stepedit("corrupt", "t.txt", "--out", "p.jsonl", folder=tmp_path)
    assert made.returncode == 0, made.stderr
    rows = [json.loads(line) for line in (tmp_path / "p.jsonl").read_text().splitlines()]
    assert rows == [
        {"source": "hello world it is 3.5 m", "target": "Hello, World! It is 3.5 m."},
        {"source": "ok", "target": "OK"},
    ]
    assert "exists already" in stepedit("corrupt", "t.txt", "--out", "p.jsonl", folder=tmp_path).stderr
    assert "did you mean 'case'" in stepedit("corrupt", "t.txt", "--noise", "cas", folder=tmp_path).stderr
    assert "changes nothing in it" in stepedit("corrupt", "t.txt", "--noise", "", folder=tmp_path).stderr
    half = stepedit("corrupt", "--clean-share", "0.5", "--partial-share", "0.5", "--out", "h.jsonl", folder=tmp_path)
    assert half.returncode == 0, half.stderr
    rows = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text().splitlines()]
    kinds = [
        0 if row["source"] == row["target"] else 1 if row["source"] == row["source"].lower() else 2 for row in rows
    ]
    shares = [kinds.count(kind) / len(kinds) for kind in range(3)]
    assert 0.5 < shares[0] < 0.62, "half of the lines are clean; in a few others nothing was drawn"
    assert shares[1] > 0.2, "a quarter has lost all capitals"
    assert shares[2] > 0.05, "some have lost a part of them"
    rng = np.random.default_rng(0)
    assert noise.add_noise("abc def", ["typos", "spaces"], 0.0, rng) == "abc def"
    assert noise.add_noise("abcdef " * 9, ["typos"], 0.5, rng) != "abcdef " * 9


def test_every_installation_has_sentences_to_start_with() -> None:
    lines = noise.help_sentences()
    assert len(lines) > 1_000
    assert all(line[0].isupper() and line[-1] in ".!?:" for line in lines)


def test_a_lexicon_knows_words_whatever_their_case() -> None:
    lexicon = Lexicon(["The", "cat's"])
    assert lexicon.knows("THE cat's, 12!")
    assert not lexicon.knows("the dog")
    assert lexicon.knows("12"), "a text without words has no unknown word"
    assert Lexicon(["हिन्दी", "भाषा", "caf\u00e9", "don't", "e-mail"]).knows("हिन्दी भाषा cafe\u0301 Don’t e-mail")
    assert not Lexicon(["हि"]).knows("हिन्दी")


def test_insertable_tokens_are_learned_from_the_pairs_and_other_pairs_are_not_expressible() -> None:
    sources = [f"w{i} teh end" for i in range(1_200)]
    targets = [f"w{i} the end" + (f" odd{i}" if i < 3 else "") for i in range(1_200)]
    task = ParallelText.for_data(sources, targets, {"level": "word"})
    pairs = task.encode(sources, targets)
    expressible = task.expressible(pairs, task.edits(pairs.sources, pairs.targets))
    assert (~expressible).sum() == 3
    assert " the" in task.insertable_tokens
    moved = task.encode(["plugh teh xyzzy"], ["teh plugh xyzzy"])
    assert task.expressible(moved, task.edits(moved.sources, moved.targets)).all(), "a word of the text can be moved"
    assert TASKS["text"] is ParallelText


def test_marks_are_put_beside_those_that_targets_put_them_beside() -> None:
    sources = [f"now word{index} and" for index in range(400)]
    targets = [f"now, word{index}... and" for index in range(400)]
    task = ParallelText.for_data([*sources, "a b"], [*targets, "a,, b"], {"level": "word"})
    assert task.mark_pairs == ("..",), "one double comma in 400 is chance, and three full stops are not"
    comma, stop, unknown, word = task.vocabulary.ids([",", ".", " ?", " now"])
    assert {comma, stop} <= set(task.template.marks)

    def crowds(mark: int, at: int, *state: int) -> bool:
        edit = Edit(at, at, (mark,))
        return task.template.crowds(edit, state, lambda token: as_mark(task.vocabulary.name(token)))

    assert crowds(comma, 1, comma)
    assert crowds(comma, 0, comma)
    assert crowds(stop, 1, unknown), "a mark that is not in the vocabulary"
    assert not crowds(stop, 1, stop)
    assert not crowds(comma, 1, word)
    by_character = ParallelText.for_data(sources, targets, {"level": "char"})
    assert by_character.mark_pairs is None
    assert not by_character.template.marks


def test_inspect_says_how_much_affix_rules_add(tmp_path: Path) -> None:
    path = tmp_path / "forms.tsv"
    path.write_text("".join(f"they {word}\tthey {word}ed\n" for word in random_words(1_500)))
    shown = stepedit("inspect", path, "--level", "word", "--pairs", 0)
    assert shown.returncode == 0, shown.stderr
    assert "100.0% of the pairs can be expressed, 0.0% without affix rules" in shown.stdout
    assert "number of affix rules: 1, most frequent: -0+ed" in shown.stdout
    assert "affix" not in stepedit("inspect", path, "--level", "char", "--pairs", 0).stdout
