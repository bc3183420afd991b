"""Data sets are read and written without loss; every error message is one line with file and line number."""

import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.config import RunSettings
from stepedit.data import dataset
from stepedit.data.dataset import Card
from stepedit.data.location import Location
from stepedit.data.readers import Lines
from stepedit.errors import DataError, DataWarning
from stepedit.registry import TASKS

SPLITS = {"train": Lines(["a b", "c"], ["a", "c d"]), "val": Lines(["e"], ["f"]), "test": Lines(["g"], ["h"])}


def test_reading_is_the_inverse_of_writing(tmp_path: Path) -> None:
    dataset.write(tmp_path / "set", SPLITS, Card(task="aor", seed=3))
    read = dataset.read(tmp_path / "set")
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
    assert dataset.read(tmp_path / name).splits == {"all": SPLITS["train"]}


ALMOST_VALID = st.text(st.sampled_from('ab\t\n\r,"{}:\\[]1\0é\ufeff source target'), max_size=80).map(str.encode)


@given(
    content=st.binary(max_size=80)
    | ALMOST_VALID
    | st.tuples(ALMOST_VALID, st.binary(max_size=3), ALMOST_VALID).map(b"".join),
    ending=st.sampled_from([".tsv", ".csv", ".jsonl", ".txt"]),
)
def test_any_file_content_is_read_or_refused_in_one_line(content: bytes, ending: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, f"pairs{ending}")
        path.write_bytes(content)
        lines, message = Lines([], []), ""
        try:
            lines = dataset.read(path).splits["all"]
        except DataError as error:
            message = str(error)
    assert len(lines.sources) == len(lines.targets)
    assert bool(message) == (not lines.sources)
    assert "\n" not in message


def test_fields_may_be_long(tmp_path: Path) -> None:
    (tmp_path / "p.tsv").write_text(f"{'a' * 200_000}\tb\n")
    assert len(dataset.read(tmp_path / "p.tsv").splits["all"].sources[0]) == 200_000


def test_columns_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("wrong,right\na b,a\n")
    assert dataset.read(tmp_path / "p.csv", "wrong", "right").splits["all"].targets == ["a"]


def test_named_columns_must_exist(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("wrong,right\na b,a\n")
    with pytest.raises(DataError, match=r"p.csv:1: no column 'src'; the columns are: wrong, right"):
        dataset.read(tmp_path / "p.csv", "src", "right")


@pytest.mark.parametrize("name", ["p.m2", "splits", "p.txt"])
def test_columns_are_not_named_where_there_are_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "splits").mkdir()
    targets = [tmp_path / "p.ref"] if name == "p.txt" else []
    with pytest.raises(DataError, match=f"{name}: M2, parallel files and folders of splits have no columns to name"):
        dataset.read(tmp_path / name, None, "right", targets)


def test_columns_that_a_run_names_are_ignored_where_its_data_have_none(tmp_path: Path) -> None:
    for name in ("train_x", "train_y", "val_x", "val_y"):
        (tmp_path / f"{name}.txt").write_text("a b\n")
    run = RunSettings(task="text", data=str(tmp_path), target_column="right")
    assert set(dataset.read_run_splits(run, Location(tmp_path)).splits) == {"train", "val"}


def test_a_pair_that_is_not_of_the_task_is_reported_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text('source,target\n2 3 5,2 + 3 == 5\n"2 3\n5",2 + 3 == 5\n2 x 5,2 + 3 == 5\n')
    lines = dataset.read(tmp_path / "p.csv").splits["all"]
    with pytest.raises(DataError, match=r"p.csv:5: unknown token 'x'"):
        lines.encode(TASKS["aor"]())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.tsv", b"", "p.tsv: the file is empty"),
        ("p.tsv", b"\n\n", "p.tsv: the file is empty"),
        ("p.tsv", b"a\tb\nc\n", "p.tsv:2: 1 columns where 2 were expected"),
        ("p.tsv", b"a\tb\xff\n", r"p.tsv:1: not UTF-8 \(byte 0xff at column 4\)"),
        ("p.csv", b"wrong,right,id\na,b,c\n", "p.csv:1: no column 'source'; the columns are: wrong, right, id"),
        ("p.csv", b"source,right\na,b\n", "p.csv:1: no column 'target'"),
        ("p.csv", b'source,target\n"a,b\n', "p.csv:2: a quotation mark that is never closed"),
        ("p.csv", b'"a\nb"\n', "the columns are: a b"),
        ("p.jsonl", b'{"source": "a", "target": "b"}\n{"source"\n', "p.jsonl:2: not valid JSON"),
        ("p.jsonl", b"[1, 2]\n", "p.jsonl:1: expected a JSON object"),
        ("p.jsonl", b'{"x": "a", "target": "b"}\n', "p.jsonl:1: no column 'source'; the columns are: x, target"),
        ("p.jsonl", b"[" * 100_000 + b"\n", "p.jsonl:1: JSON that is nested too deeply"),
        (
            "p.jsonl",
            b'{"source": ' + b"9" * 5_000 + b', "target": "b"}\n',
            "p.jsonl:1: JSON that is nested too deeply or has too long a number",
        ),
        (
            "p.jsonl",
            b'{"source": 3, "target": "b"}\n',
            "p.jsonl:1: 'source' must be a string, 'target' a string or a list",
        ),
        ("p.jsonl", b'{"source": "\\ud800", "target": "b"}\n', "p.jsonl:1: a lone surrogate"),
        ("p.tsv", b"source\ttarget\n", "p.tsv: there are no pairs in it"),
        ("p.xlsx", b"x", "p.xlsx: unknown format '.xlsx'; pairs are read from .csv, .jsonl, .m2, .tsv"),
    ],
)
def test_bad_files_of_pairs_are_reported_with_their_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        dataset.read(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("files", "message"),
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
            "dataset.json: a data set of another version",
        ),
        (
            {"train_x.txt": "a\n", "train_y.txt": "b\n", "dataset.json": '{"format": 1}'},
            "dataset.json: a data set of another version",
        ),
        (
            {"train_x.txt": "a\n", "train_y.txt": "b\n", "dataset.json": '{"format": 2, "splits": {"train": 7}}'},
            "train has 1 pairs, but dataset.json says 7",
        ),
    ],
)
def test_bad_folders_are_reported(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        dataset.read(tmp_path)


def test_a_missing_path_is_reported(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: no such file or folder"):
        dataset.read(tmp_path / "nowhere")


def test_a_data_set_is_only_overwritten_with_replace(tmp_path: Path) -> None:
    dataset.write(tmp_path / "set", SPLITS, Card(seed=1))
    with pytest.raises(DataError, match="exists already"):
        dataset.write(tmp_path / "set", SPLITS, Card(seed=2))
    dataset.write(tmp_path / "set", SPLITS, Card(seed=3), replace=True)
    assert json.loads((tmp_path / "set" / "dataset.json").read_text())["seed"] == 3


def test_a_folder_that_is_not_a_data_set_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="is not replaced"):
        dataset.write(tmp_path, SPLITS, Card(), replace=True)
    assert (tmp_path / "thesis.txt").exists()


def test_a_data_set_with_other_files_in_it_is_never_replaced(tmp_path: Path) -> None:
    dataset.write(tmp_path / "set", SPLITS, Card())
    (tmp_path / "set" / "notes.md").write_text("mine")
    with pytest.raises(DataError, match="is not replaced"):
        dataset.write(tmp_path / "set", SPLITS, Card(), replace=True)
    assert (tmp_path / "set" / "notes.md").exists()


def test_of_two_concurrent_writers_the_second_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes write the same folder at the same time: the second one gets an error."""
    other = {"train": Lines(["z"], ["z"])}
    original = dataset._write_splits

    def write_after_another_process(folder: Path, splits: dict[str, Lines], card: Card) -> None:
        original(folder, splits, card)
        original(tmp_path / "set", other, Card())

    monkeypatch.setattr(dataset, "_write_splits", write_after_another_process)
    with pytest.raises(DataError, match="set cannot be written: it exists already"):
        dataset.write(tmp_path / "set", SPLITS, Card())
    assert dataset.read(tmp_path / "set").splits == other


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(100))

    def fail_at_the_fourth(descriptor: int) -> None:
        if next(calls) == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_at_the_fourth)
    with pytest.raises(DataError, match="set cannot be written: No space left on device"):
        dataset.write(tmp_path / "set", SPLITS, Card())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("exists", [False, True])
def test_a_killed_write_leaves_no_partial_data_set(tmp_path: Path, exists: bool) -> None:
    """The process gets SIGKILL after some files are written: the old data set stays whole, and the next write removes
    what was left over."""
    if exists:
        dataset.write(tmp_path / "set", SPLITS, Card(seed=1))
    program = """
import os, sys, time
from pathlib import Path
from stepedit.data import dataset
from stepedit.data.readers import Lines

sync, calls = os.fsync, iter(range(99))

def stop_at_the_fourth(descriptor):
    sync(descriptor)
    if next(calls) == 3:
        print("half", flush=True)
        time.sleep(60)

os.fsync = stop_at_the_fourth
lines = Lines(["a"], ["b"])
dataset.write(Path(sys.argv[1]), {"train": lines, "val": lines, "test": lines}, dataset.Card(), replace=True)
"""
    command = [sys.executable, "-c", program, str(tmp_path / "set")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "half\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert (tmp_path / "set").exists() == exists
    assert not exists or dataset.read(tmp_path / "set").splits == SPLITS
    leftovers = [path.name for path in tmp_path.iterdir() if path.name != "set"]
    assert len(leftovers) == 1
    assert leftovers[0].startswith(".set.partial-")
    dataset.write(tmp_path / "set", SPLITS, Card(seed=2), replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    assert dataset.read(tmp_path / "set").card == Card(seed=2, splits={"train": 2, "val": 1, "test": 1})


def test_a_leftover_with_our_own_process_id_is_removed(tmp_path: Path) -> None:
    """Process ids are reused, above all in containers."""
    prefix = f".set.partial-{platform.node().partition('.')[0]}"
    (tmp_path / f"{prefix}-{os.getpid()}-abc").mkdir()
    others = {f"{prefix}-{os.getppid()}-abc", f".set.partial-elsewhere-{os.getpid()}-abc"}  # live, or not ours
    for name in others:
        (tmp_path / name).mkdir()
    dataset.write(tmp_path / "set", SPLITS, Card())
    assert {path.name for path in tmp_path.iterdir()} == {"set", *others}


@pytest.mark.parametrize(
    ("size", "sizes"), [(10_000, (7_000, 1_500, 1_500)), (10, (7, 1, 2)), (4, (2, 1, 1)), (99, (69, 15, 15))]
)
def test_splits_are_70_15_15_and_never_empty(size: int, sizes: tuple[int, ...]) -> None:
    parts = dataset.split_slices(size)
    assert tuple(len(range(size)[part]) for part in parts.values()) == sizes
    assert sorted(index for part in parts.values() for index in range(size)[part]) == list(range(size))


def test_a_size_that_is_too_small_to_split_is_refused() -> None:
    with pytest.raises(DataError, match="at least 4"):
        dataset.split_slices(3)


def test_the_task_is_the_one_named_or_that_of_the_card(tmp_path: Path) -> None:
    lines = Lines(["3 4 7"], ["3 + 4 == 7"])
    dataset.write(tmp_path / "set", {"train": lines}, Card(task="aor", task_args={"numbers": 20, "length": 3}))
    task = dataset.task_of(dataset.read(tmp_path / "set"))
    assert task is not None
    assert len(task.vocabulary) == len(dataset.task_of(dataset.read(tmp_path / "set"), "aor").vocabulary)  # type: ignore[union-attr]
    bare = dataset.Dataset({"train": lines})
    assert dataset.task_of(bare) is None
    named = dataset.task_of(bare, "aor")
    assert named is not None
    assert named.numbers == 6  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.tsv", b"\xef\xbb\xbfa b\tc\r\n\r\n \nd\te\r\n"),
        ("p.tsv", b"\xef\xbb\xbfsource\ttarget\r\n\r\na b\tc\r\n\nd\te"),
        ("p.csv", b'\xef\xbb\xbf\r\nsource,target\r\n\r\na b,c\r\n\n"d",e\r\n'),
        ("p.jsonl", b'\xef\xbb\xbf{"source": "a b", "target": "c"}\r\n\r\n\n{"source": "d", "target": "e"}\r\n'),
    ],
)
def test_byte_order_mark_blank_lines_and_crlf_are_no_part_of_pairs(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert dataset.read(tmp_path / name).splits == {"all": Lines(["a b", "d"], ["c", "e"])}


def test_blank_lines_of_parallel_files_stay_aligned(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbfa\r\n\r\nb\r\n")
    (tmp_path / "y").write_bytes(b"c\n\nd\n")
    assert dataset.read(tmp_path / "x", target_files=[tmp_path / "y"]).splits["all"] == Lines(
        ["a", "", "b"], ["c", "", "d"]
    )


@pytest.mark.parametrize(
    "header", ["input,output", "Wrong,Right", "text,label", "Source,Target", "source_text,target-text"]
)
def test_a_row_that_looks_like_a_header_is_a_pair_with_a_warning(header: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(f"{header}\na,b\n")
    first, second = header.split(",")
    with pytest.warns(DataWarning, match=f"p.csv:1: .*--source-column {first} --target-column {second}"):
        assert dataset.read(tmp_path / "p.csv").splits["all"].sources == [first, "a"]
    assert dataset.read(tmp_path / "p.csv", first, second).splits["all"].sources == ["a"]


def test_an_ordinary_first_row_gets_no_warning(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("inputt,input\na,b\n!,?\n")
    assert len(dataset.read(tmp_path / "p.csv").splits["all"]) == 3
    (tmp_path / "p.csv").write_text("!,?\na,b\n")
    assert len(dataset.read(tmp_path / "p.csv").splits["all"]) == 2


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.M2"])
def test_a_file_with_targets_of_its_own_takes_no_other_targets(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a\n")
    (tmp_path / "targets.txt").write_text("b\n")
    with pytest.raises(DataError, match="has targets of its own"):
        dataset.read_splits(str(tmp_path / name), [tmp_path / "targets.txt"])
