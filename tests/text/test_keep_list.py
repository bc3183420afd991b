"""What a person wants kept: words, phrases, patterns, and code."""

import time
from pathlib import Path

import pytest

from stepedit.errors import DataError, UserError
from stepedit.text.keep_list import MAX_LINE, MAX_PATTERN, KeepList, code_spans


def kept(text: str, *entries: str) -> list[str]:
    return [text[start:end] for start, end in KeepList.of(entries).spans(text)]


@pytest.mark.parametrize(
    ("entry", "text", "found"),
    [
        ("Acme", "acme ACME, acmes Acme's un-acme acme_x", ["acme", "ACME", "Acme", "acme"]),
        ("case:Apple", "an apple of Apple", ["Apple"]),
        ("New York", "new  york, New\nYork; NewYork new-york", ["new  york", "New\nYork"]),
        ("C++", "c++ c", ["c++"]),
        ("node.js", "Node.js node js", ["Node.js"]),
        ("caf\u00e9", "CAFE\u0301 cafe", ["CAFE\u0301"]),
        ("o'clock", "five o’clock", ["o’clock"]),
        ("東京", "私は東京都に", ["東京"]),
        ("/inv-[0-9]+/", "see INV-12, INV-x", ["INV-12"]),
        ("case:/INV-[0-9]+/", "see inv-12 INV-13", ["INV-13"]),
        ("/ *b */", "a b c", ["b"]),
        ("/x*/", "abc", []),
    ],
)
def test_words_phrases_and_patterns_are_found(entry: str, text: str, found: list[str]) -> None:
    assert kept(text, entry) == found


def test_spans_that_overlap_are_one() -> None:
    assert kept("in new york city", "new york", "york city") == ["new york city"]


def test_a_pattern_is_searched_line_by_line_and_a_very_long_line_is_kept_whole() -> None:
    long = "b" * (MAX_LINE + 1)
    assert kept(f"a1\n{long}\na2", r"/a.b|a\d/") == ["a1", long, "a2"]
    assert kept(long, "b") == []


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("/(/", "not a regular expression"),
        ("//", "an empty pattern"),
        (f"/{'a' * (MAX_PATTERN + 1)}/", f"{MAX_PATTERN} is the limit"),
        ("/(a+)+b/", "can take for ever"),
        ("/((x|y)z)*/", "can take for ever"),
        ("/(aa?)*b/", "can take for ever"),
        (r"/(\w-?\w?)+!/", "can take for ever"),
        ("/(}}?)*!/", "can take for ever"),
        ("/(?:aa|a){60}b/", "can take for ever"),
        ("/.*.*.*x/", "can take for ever"),
        ("case:", "no word after"),
    ],
)
def test_an_entry_that_cannot_be_used_is_refused_with_its_line(tmp_path: Path, entry: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        KeepList.of([entry])
    (tmp_path / "words.txt").write_text(f"# names\nfine\n{entry}\n")
    with pytest.raises(DataError, match=rf"words\.txt:3: .*{reason}"):
        KeepList.read(tmp_path / "words.txt")


@pytest.mark.parametrize(
    "pattern",
    [
        r"/\(+a+\)+/",
        "/(?:a)+b?/",
        "/[(+]+x+/",
        "/(?:ab)+/",
        "/(a+)b/",
        "/(?:a{2}?)+/",
        "/(?P<n>ab)+/",
        "/(?:a|b){4}c.*/",
    ],
)
def test_repeats_that_are_not_nested_are_fine(pattern: str) -> None:
    assert KeepList.of([pattern]).entries == (pattern,)


def test_a_file_has_comments_and_blank_lines_and_at_least_one_entry(tmp_path: Path) -> None:
    (tmp_path / "words.txt").write_text("# names\n\nAcme \nAcme\n/x+/\n")
    assert KeepList.read(tmp_path / "words.txt") == KeepList(("Acme", "/x+/"))
    (tmp_path / "none.txt").write_text("# names\n")
    with pytest.raises(DataError, match=r"none\.txt: expected a word"):
        KeepList.read(tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see https://example.org/a?b=c, or (www.foo.com).", ["https://example.org/a?b=c", "www.foo.com"]),
        (
            "(see http://a.org/b_(c)) [http://a.org/[x]]. http://a.org/:)",
            ["http://a.org/b_(c)", "http://a.org/[x]", "http://a.org/"],
        ),
        ("mail ann@example.org.", ["ann@example.org"]),
        ("src/main.py. /etc/hosts ~/notes ./x C:\\a\\b", ["src/main.py", "/etc/hosts", "~/notes", "./x", "C:\\a\\b"]),
        ("run `x = 1` or ``a`b`` now `", ["`x = 1`", "``a`b``"]),
        ("foo_bar() os.path.join() main() camelCase", ["foo_bar()", "os.path.join()", "main()", "camelCase"]),
        ("1,250.75 2024-05-01 v1.2.3, 12:30 5% 3rd", ["1,250.75", "2024-05-01", "v1.2.3", "12:30", "5%", "3rd"]),
        ("on localhost:8000 or db.example.org:80, not a:b", ["localhost:8000", "db.example.org:80"]),
        ("a\n```sh\nls one\n```\nb\n~~~\nc `d\n", ["```sh\nls one\n```", "~~~\nc `d\n"]),
        ("The cat sat.The dog - it ran. Then / so: (or) not", []),
    ],
)
def test_addresses_code_and_numbers_are_found(text: str, found: list[str]) -> None:
    assert [text[start:end] for start, end in code_spans(text)] == found


@pytest.mark.parametrize(
    "text",
    [
        "a+" * 60_000,
        "www." + ")" * 100_000,
        "".join("`" * n + "x" for n in range(400)),
        "`" * 100_001,
        "```\n" * 20_001,
        "```x`\n" * 20_000,
    ],
)
def test_code_is_found_in_time_that_grows_with_the_text(text: str) -> None:
    begin = time.process_time()
    code_spans(text)
    assert time.process_time() - begin < 2  # it was quadratic: minutes


def test_code_in_backticks_ends_at_a_run_of_the_same_length() -> None:
    text = "a `b` c ``d ` e`` f ` g\n` h"
    assert [text[start:end] for start, end in code_spans(text)] == ["`b`", "``d ` e``"]
