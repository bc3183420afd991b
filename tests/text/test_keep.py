"""Words that stay."""

import gzip
from pathlib import Path

import pytest

from stepedit.errors import DataError
from stepedit.text.keep import MAX_BYTES, Keep


def test_words_are_known_whatever_their_case_and_apostrophe() -> None:
    keep = Keep(["Berlin", "don't", "caf\u00e9", "o'clock"])
    for word in ("berlin", "BERLIN", "Berlin's", "Berlin’s", "don’t", "cafe\u0301", "O'Clock"):
        assert word in keep
    for word in ("berling", "dont", "", "'s", 3):
        assert word not in keep
    assert keep.has_all("Don't Berlin")
    assert not keep.has_all("Berlin cat")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_of_words_has_comments_and_may_be_compressed(tmp_path: Path, pack: type) -> None:
    (tmp_path / "keep").write_bytes(pack(b"# a list\n\ncat\nDog \n"))
    assert Keep.read(tmp_path / "keep").words == {"cat", "dog"}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_that_unpacks_to_too_much_is_refused(tmp_path: Path, pack: type) -> None:
    (tmp_path / "keep").write_bytes(pack(b"cat\n" * (MAX_BYTES // 4 + 1)))
    with pytest.raises(DataError, match=r"keep: more than 33,554,432 bytes are too many"):
        Keep.read(tmp_path / "keep")


@pytest.mark.parametrize("content", [b"", b"# nothing\n", b"\xff\xfe", gzip.compress(b"cat", mtime=0)[:-4]])
def test_a_damaged_or_empty_file_is_reported(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "keep").write_bytes(content)
    with pytest.raises(DataError, match="keep: "):
        Keep.read(tmp_path / "keep")


def test_letters_that_a_list_hardly_has_are_foreign_to_it() -> None:
    english = Keep([*(f"word{'s' * count}" for count in range(1, 30)), "café"])
    assert [english.is_foreign(word) for word in ("über", "word", "wrod", "don’t", "café")] == [
        *(True, False, False, False),
        True,
    ]
    assert not Keep(["слово", "дім"]).is_foreign("слва")
