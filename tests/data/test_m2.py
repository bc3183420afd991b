"""M2 and several references: read without loss, and every error is one line with file and line number."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepedit.data import dataset
from stepedit.data.m2 import format_m2
from stepedit.data.readers import Lines
from stepedit.errors import DataError

TWO_ANNOTATORS = """S This are a sentences .
A 1 2|||R:VERB:SVA|||is|||REQUIRED|||-NONE-|||0
A 3 4|||R:NOUN:NUM|||sentence|||REQUIRED|||-NONE-|||0
A 0 1|||R:DET|||These|||REQUIRED|||-NONE-|||1
A 2 3|||U:DET||||||REQUIRED|||-NONE-|||1

S Fine .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

S Only one changes
A 3 3|||M:PUNCT|||.|||REQUIRED|||-NONE-|||1
"""

WORDS = st.text(st.sampled_from("abé.'<&;-"), min_size=1, max_size=3).filter(lambda word: word != "-NONE-")
SENTENCES = st.lists(WORDS, max_size=6).map(" ".join)
TEXTS = st.integers(1, 3).flatmap(
    lambda count: st.lists(st.tuples(SENTENCES, st.lists(SENTENCES, min_size=count, max_size=count)), min_size=1)
)


def read(path: Path, content: str) -> Lines:
    path.write_text(content, encoding="utf-8")
    return dataset.read(path).splits["all"]


def test_each_annotator_is_a_reference_and_one_without_edits_leaves_the_sentence(tmp_path: Path) -> None:
    lines = read(tmp_path / "two.m2", TWO_ANNOTATORS)
    assert lines.texts().sources == ["This are a sentences .", "Fine .", "Only one changes"]
    assert lines.references() == [
        ["This is a sentence .", "These are sentences ."],
        ["Fine .", "Fine ."],
        ["Only one changes", "Only one changes ."],
    ]
    assert lines.sources == [source for source in lines.texts().sources for _ in range(2)]
    assert lines.numbers == [1, 1, 7, 7, 11, 11]


@given(texts=TEXTS)
def test_reading_is_the_inverse_of_writing(texts: list[tuple[str, list[str]]]) -> None:
    with TemporaryDirectory() as folder:
        lines = read(Path(folder) / "some.m2", "".join(format_m2(*text) for text in texts))
    assert (lines.texts().sources, lines.references()) == ([text[0] for text in texts], [text[1] for text in texts])


def test_edits_at_one_place_keep_their_order_and_others_are_sorted(tmp_path: Path) -> None:
    ends = "|||REQUIRED|||-NONE-|||0"
    edits = [f"A 2 3|||X|||C{ends}", f"A 1 1|||X|||x{ends}", f"A 1 1|||X|||y{ends}", f"A 1 2|||X|||B||Q{ends}"]
    assert read(tmp_path / "some.m2", "\n".join(["S a b c", *edits])).targets == ["a x y B C"]


def test_windows_line_ends_and_a_missing_blank_line_are_no_matter(tmp_path: Path) -> None:
    content = "\ufeffS a b\r\nA 0 1|||X|||c|||REQUIRED|||-NONE-|||0\r\nS d\r\n\r\n\r\nS"
    assert read(tmp_path / "some.m2", content) == Lines(["a b", "d", ""], ["c b", "d", ""])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("A 0 1|||X|||y|||REQUIRED|||0", "not `A START END|||TYPE|||CORRECTION|||REQUIRED|||-NONE-|||ANNOTATOR`"),
        ("A 0 one|||X|||y|||REQUIRED|||-NONE-|||0", "not `A START END"),
        ("A 0 1|||X|||y|||REQUIRED|||-NONE-|||me", "not `A START END"),
        ("A", "begins with `S ` or `A `"),
        ("T 0 1", "begins with `S ` or `A `"),
        ("A 1 3|||X|||y|||REQUIRED|||-NONE-|||0", "tokens 1 to 3 of a sentence of 2"),
        ("A -1 -1|||X|||y|||REQUIRED|||-NONE-|||0", "tokens -1 to -1"),
        ("A 1 0|||X|||y|||REQUIRED|||-NONE-|||0", "tokens 1 to 0"),
        ("A 0 2|||X|||y|||REQUIRED|||-NONE-|||0", "overlaps another edit of annotator 0"),
    ],
)
def test_a_line_that_does_not_parse_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path / "bad.m2", f"S a b\nA 0 1|||X|||c|||REQUIRED|||-NONE-|||0\n{line}\n")
    assert str(caught.value).startswith(f"{tmp_path / 'bad.m2'}:3: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_edit_without_a_sentence_and_a_file_without_sentences_are_refused(tmp_path: Path) -> None:
    edit = "A 0 1|||X|||c|||REQUIRED|||-NONE-|||0"
    with pytest.raises(DataError, match=r"bad.m2:4: an edit \(A\) without a sentence"):
        read(tmp_path / "bad.m2", f"S a\n{edit}\n\n{edit}\n")
    with pytest.raises(DataError, match=r"bad.m2: the file is empty"):
        read(tmp_path / "bad.m2", "\n\n")


@given(content=st.text(st.sampled_from("SA 01|-x\n\r"), max_size=60))
def test_any_file_is_read_or_refused(content: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "some.m2"
        path.write_bytes(content.encode())
        message = ""
        try:
            found = len(dataset.read(path).splits["all"])
        except DataError as error:
            found, message = 0, str(error)
    assert found or message.startswith(str(path))
    assert "\n" not in message


def test_a_correction_that_would_be_read_as_two_is_not_written() -> None:
    with pytest.raises(DataError, match=r"M2 has no way to write the correction 'a\|\|b'"):
        format_m2("a", ["a||b"])
    assert "noop" in format_m2("a||b |||", ["a||b |||"])


# several references in other formats


def test_a_target_in_jsonl_may_be_a_list(tmp_path: Path) -> None:
    rows = [{"source": "a", "target": ["b", "c"]}, {"source": "d", "target": "e"}, {"source": "f", "target": ["g"]}]
    lines = read(tmp_path / "some.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))
    assert lines == Lines(["a", "a", "d", "f"], ["b", "c", "e", "g"], groups=[0, 0, 1, 2])
    assert lines.references() == [["b", "c"], ["e"], ["g"]]


@pytest.mark.parametrize(
    ("target", "message"), [([], "a list without a reference"), (["a", 1], "a list of strings"), (None, "a string or")]
)
def test_a_list_of_anything_else_is_refused(tmp_path: Path, target: object, message: str) -> None:
    with pytest.raises(DataError, match=rf"some.jsonl:1: .*{message}"):
        read(tmp_path / "some.jsonl", json.dumps({"source": "a", "target": target}))


def test_several_parallel_files_are_several_references(tmp_path: Path) -> None:
    for name, content in {"x": "a\n\n", "y0": "b\n\n", "y1": "c\nd\n", "short": "c\n"}.items():
        (tmp_path / name).write_text(content)
    x, y0, y1, short = (tmp_path / name for name in ("x", "y0", "y1", "short"))
    assert dataset.read(x, target_files=[y0, y1]).splits["all"].references() == [["b", "c"], ["", "d"]]
    with pytest.raises(DataError, match=r"x has 2 lines but .*short has 1"):
        dataset.read(x, target_files=[y0, short])


def test_files_with_one_reference_have_no_groups(tmp_path: Path) -> None:
    assert read(tmp_path / "some.m2", format_m2("a b", ["a c"])).groups is None
    assert read(tmp_path / "some.jsonl", '{"source": "a", "target": ["b"]}').groups is None


def test_a_split_has_all_references_of_a_source(tmp_path: Path) -> None:
    texts = [(f"word{number} text", [f"one {number}", f"two {number}"]) for number in range(200)]
    read(tmp_path / "some.m2", "".join(format_m2(*text) for text in texts))
    splits = dataset.read_splits(str(tmp_path / "some.m2")).splits
    assert sum(len(lines.texts()) for lines in splits.values()) == 200
    assert all(len(references) == 2 for lines in splits.values() for references in lines.references())
    assert all(len(lines) > 4 for lines in splits.values())
