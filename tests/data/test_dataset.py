"""Reading what people have, writing what we use; every complaint in one line with its place."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit import datasets
from stepedit.datasets import Card, Lines
from stepedit.errors import DataError
from stepedit.registry import TASKS

SPLITS = {"train": Lines(["a b", "c"], ["a", "c d"]), "val": Lines(["e"], ["f"]), "test": Lines(["g"], ["h"])}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    datasets.write(tmp_path / "set", SPLITS, Card(task="aor", seed=3))
    read = datasets.read(tmp_path / "set")
    assert read.splits == SPLITS
    assert read.card is not None
    assert read.card.task == "aor"
    assert read.card.splits == {"train": 2, "val": 1, "test": 1}
    names = {path.name for path in (tmp_path / "set").iterdir()}
    assert names == {f"{split}_{side}.txt" for split in SPLITS for side in "xy"} | {"dataset.json"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("pairs.tsv", "a b\ta\nc\tc d\n"),
        ("pairs.tsv", "source\ttarget\na b\ta\nc\tc d\n"),
        ("pairs.tsv", "id\ttarget\tsource\n1\ta\ta b\n2\tc d\tc\n"),
        ("pairs.csv", 'source,target\n"a b",a\nc,"c d"\n'),
        ("pairs.csv", "\ufeffsource,target\r\na b,a\r\nc,c d\r\n"),
        ("PAIRS.TSV", "a b\ta\nc\tc d\n"),
        ("pairs.jsonl", '{"source": "a b", "target": "a"}\n\n{"source": "c", "target": "c d"}\n\n'),
        ("pairs.jsonl", '{"source": "a b", "target": "a"}\n{"target": "c d", "source": "c", "id": 2}\n'),
    ],
)
def test_files_of_pairs_are_read(tmp_path: Path, name: str, content: str) -> None:
    (tmp_path / name).write_bytes(content.encode())
    assert datasets.read(tmp_path / name).splits == {"all": SPLITS["train"]}


NEARLY = st.text(st.sampled_from('ab\t\n\r,"{}:\\[]1\0é\ufeff source target'), max_size=80).map(str.encode)


@given(
    content=st.binary(max_size=80) | NEARLY | st.tuples(NEARLY, st.binary(max_size=3), NEARLY).map(b"".join),
    ending=st.sampled_from([".tsv", ".csv", ".jsonl", ".txt"]),
)
def test_whatever_is_in_a_file_it_is_read_or_refused_in_one_line(content: bytes, ending: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"pairs{ending}")
        path.write_bytes(content)
        lines, said = Lines([], []), ""
        try:
            lines = datasets.read(path).splits["all"]
        except DataError as error:
            said = str(error)
    assert len(lines.sources) == len(lines.targets)
    assert bool(said) == (not lines.sources)
    assert "\n" not in said


def test_fields_may_be_long(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text(f"{'a' * 200_000}\tb\n")
    assert len(datasets.read(tmp_path / "p.tsv").splits["all"].sources[0]) == 200_000


def test_columns_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("wrong,right\na b,a\n")
    assert datasets.read(tmp_path / "p.csv", "wrong", "right").splits["all"].targets == ["a"]


def test_columns_that_are_named_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("wrong,right\na b,a\n")
    with pytest.raises(DataError, match=r"p.csv:1: no column 'src'; the columns are: wrong, right"):
        datasets.read(tmp_path / "p.csv", "src", "right")


def test_a_pair_that_is_none_of_the_task_is_named_with_its_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text('source,target\n2 3 5,2 + 3 == 5\n"2 3\n5",2 + 3 == 5\n2 x 5,2 + 3 == 5\n')
    lines = datasets.read(tmp_path / "p.csv").splits["all"]
    with pytest.raises(DataError, match=r"p.csv:5: unknown token 'x'"):
        lines.encode(TASKS["aor"]())


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("p.tsv", b"", "p.tsv: the file is empty"),
        ("p.tsv", b"\n\n", "p.tsv: the file is empty"),
        ("p.tsv", b"a\tb\nc\n", "p.tsv:2: 1 columns where 2 were expected"),
        ("p.tsv", b"a\tb\xff\n", r"p.tsv:1: not UTF-8 \(byte 0xff at column 4\)"),
        ("p.csv", b"wrong,right,id\na,b,c\n", "p.csv:1: no column 'source'; the columns are: wrong, right, id"),
        ("p.csv", b"source,right\na,b\n", "p.csv:1: no column 'target'"),
        ("p.csv", b'source,target\n"a,b\n', "p.csv:2: a quote that is never closed"),
        ("p.csv", b'"a\nb"\n', "the columns are: a b"),
        ("p.jsonl", b'{"source": "a", "target": "b"}\n{"source"\n', "p.jsonl:2: not valid JSON"),
        ("p.jsonl", b"[1, 2]\n", "p.jsonl:1: a JSON object was expected"),
        ("p.jsonl", b'{"x": "a", "target": "b"}\n', "p.jsonl:1: no column 'source'; the columns are: x, target"),
        ("p.jsonl", b"[" * 100_000 + b"\n", "p.jsonl:1: JSON that is too deep"),
        (
            "p.jsonl",
            b'{"source": ' + b"9" * 5_000 + b', "target": "b"}\n',
            "p.jsonl:1: JSON that is too deep or has too",
        ),
        ("p.jsonl", b'{"source": 3, "target": "b"}\n', "p.jsonl:1: 'source' and 'target' must be strings"),
        ("p.jsonl", b'{"source": "\\ud800", "target": "b"}\n', "p.jsonl:1: half of a surrogate pair"),
        ("p.tsv", b"source\ttarget\n", "p.tsv: there is no pair in it"),
        ("p.xlsx", b"x", "p.xlsx: unknown form '.xlsx'; pairs are read from .csv, .jsonl, .tsv"),
    ],
)
def test_bad_files_of_pairs_are_named_with_their_line(
    tmp_path: Path, name: str, content: bytes, complaint: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=complaint) as caught:
        datasets.read(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({}, "no data set here"),
        (
            {"train_x.txt": "a\nb\n", "train_y.txt": "a\n"},
            "train_x.txt has 2 lines but .*train_y.txt has 1: line 2 has",
        ),
        ({"train_x.txt": "a\n"}, "train_y.txt: no such file"),
        ({"train_x.txt": "a\n", "train_y.txt": ""}, "train_y.txt: the file is empty"),
        ({"train_x.txt": "a\n", "train_y.txt": "b\n", "dataset.json": "{"}, "dataset.json: Invalid JSON"),
        (
            {"train_x.txt": "a\n", "train_y.txt": "b\n", "dataset.json": '{"format": 9}'},
            "dataset.json: format: ",
        ),
        (
            {"train_x.txt": "a\n", "train_y.txt": "b\n", "dataset.json": '{"format": 1, "splits": {"train": 7}}'},
            "train has 1 pairs, but dataset.json says 7",
        ),
    ],
)
def test_bad_folders_are_named(tmp_path: Path, files: dict[str, str], complaint: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=complaint):
        datasets.read(tmp_path)


def test_a_missing_path_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        datasets.read(tmp_path / "nowhere")


def test_nothing_is_overwritten_unless_asked(tmp_path: Path) -> None:
    datasets.write(tmp_path / "set", SPLITS, Card(seed=1))
    with pytest.raises(DataError, match="exists already"):
        datasets.write(tmp_path / "set", SPLITS, Card(seed=2))
    datasets.write(tmp_path / "set", SPLITS, Card(seed=3), replace=True)
    assert json.loads((tmp_path / "set" / "dataset.json").read_text())["seed"] == 3


def test_a_folder_that_is_no_data_set_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="left alone"):
        datasets.write(tmp_path, SPLITS, Card(), replace=True)
    assert (tmp_path / "thesis.txt").exists()


def test_a_data_set_with_other_files_in_it_is_never_replaced(tmp_path: Path) -> None:
    datasets.write(tmp_path / "set", SPLITS, Card())
    (tmp_path / "set" / "notes.md").write_text("mine")
    with pytest.raises(DataError, match="left alone"):
        datasets.write(tmp_path / "set", SPLITS, Card(), replace=True)
    assert (tmp_path / "set" / "notes.md").exists()


def test_who_comes_second_does_not_replace_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two runs that make the same folder at the same time: the second one is told."""
    other = {"train": Lines(["z"], ["z"])}
    original = datasets._write_splits

    def meanwhile(folder: Path, splits: dict[str, Lines], card: Card) -> None:
        original(folder, splits, card)
        original(tmp_path / "set", other, Card())

    monkeypatch.setattr(datasets, "_write_splits", meanwhile)
    with pytest.raises(DataError, match="set cannot be written: Directory not empty"):
        datasets.write(tmp_path / "set", SPLITS, Card())
    assert datasets.read(tmp_path / "set").splits == other


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(100))

    def fail_at_the_fourth(descriptor: int) -> None:
        if next(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_at_the_fourth)
    with pytest.raises(DataError, match="set cannot be written: No space left on device"):
        datasets.write(tmp_path / "set", SPLITS, Card())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exists", [False, True])
def test_killed_half_way_there_is_no_half_data_set(tmp_path: Path, exists: bool) -> None:
    """Really killed, with SIGKILL, after some files are written; what was there before stays whole. The next run clears
    what was left and succeeds."""
    if exists:
        datasets.write(tmp_path / "set", SPLITS, Card(seed=1))
    program = """
import os, sys, time
from pathlib import Path
from stepedit import datasets

sync, calls = os.fsync, iter(range(99))

def stop_at_the_fourth(descriptor):
    sync(descriptor)
    if next(calls) == 3:
        print("half", flush=True)
        time.sleep(60)

os.fsync = stop_at_the_fourth
lines = datasets.Lines(["a"], ["b"])
datasets.write(Path(sys.argv[1]), {"train": lines, "val": lines, "test": lines}, datasets.Card(), replace=True)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "set")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "set").exists() == exists
    assert not exists or datasets.read(tmp_path / "set").splits == SPLITS
    leftovers = [path.name for path in tmp_path.iterdir() if path.name != "set"]
    assert len(leftovers) == 1
    assert leftovers[0].startswith(".set.partial-")
    datasets.write(tmp_path / "set", SPLITS, Card(seed=2), replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    assert datasets.read(tmp_path / "set").card == Card(seed=2, splits={"train": 2, "val": 1, "test": 1})


def test_a_leftover_of_our_own_number_is_no_obstacle(tmp_path: Path) -> None:
    """Process numbers come back, above all in containers."""
    (tmp_path / f".set.partial-{os.getpid()}-abc").mkdir()
    (tmp_path / f".set.partial-{os.getppid()}-abc").mkdir()  # somebody else is at work
    datasets.write(tmp_path / "set", SPLITS, Card())
    assert {path.name for path in tmp_path.iterdir()} == {"set", f".set.partial-{os.getppid()}-abc"}


@pytest.mark.parametrize(
    ("size", "sizes"), [(10_000, (7_000, 1_500, 1_500)), (10, (7, 1, 2)), (4, (2, 1, 1)), (99, (69, 15, 15))]
)
def test_splits_are_70_15_15_and_never_empty(size: int, sizes: tuple[int, ...]) -> None:
    parts = datasets.split(size)
    assert tuple(len(range(size)[part]) for part in parts.values()) == sizes
    assert sorted(index for part in parts.values() for index in range(size)[part]) == list(range(size))


def test_a_size_too_small_to_split_is_refused() -> None:
    with pytest.raises(DataError, match="at least 4"):
        datasets.split(3)


def test_the_task_is_the_cards_or_the_one_named(tmp_path: Path) -> None:
    lines = Lines(["3 4 7"], ["3 + 4 == 7"])
    datasets.write(tmp_path / "set", {"train": lines}, Card(task="aor", options={"numbers": 20, "length": 3}))
    task = datasets.task_of(datasets.read(tmp_path / "set"))
    assert task is not None
    assert len(task.vocabulary) == len(datasets.task_of(datasets.read(tmp_path / "set"), "aor").vocabulary)  # type: ignore[union-attr]
    bare = datasets.Dataset({"train": lines})
    assert datasets.task_of(bare) is None
    named = datasets.task_of(bare, "aor")
    assert named is not None
    assert named.numbers == 6  # type: ignore[attr-defined]
