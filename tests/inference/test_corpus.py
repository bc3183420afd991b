"""Streams of lines: in order, by several processes, also when a line fails or nobody reads on."""

from collections.abc import Iterator, Sequence

import pytest

from stepedit.errors import DataError
from stepedit.inference import corpus


def shout(batch: Sequence[corpus.Line], first: int) -> tuple[int, list[str]]:
    if any(text == "bad" for text, _ in batch):
        raise DataError(f"line {first + 1} is bad")
    return first, [text.upper() for text, _ in batch]


def lines(*texts: str, failure: str = "") -> Iterator[corpus.Line]:
    yield from ((text, "\n") for text in texts)
    if failure:
        raise DataError(failure)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_LINES", 2)


def test_results_come_in_order() -> None:
    texts = [str(number) for number in range(9)]
    found = list(corpus.in_processes(shout, lines(*texts), 2))
    assert [first for first, _ in found] == [0, 2, 4, 6, 8]
    assert [text for _, part in found for text in part] == texts


def test_nothing_is_returned_after_a_batch_that_fails() -> None:
    found = list[int]()
    with pytest.raises(DataError, match="line 3 is bad"):
        found.extend(first for first, _ in corpus.in_processes(shout, lines(*"ab", "bad", *"def", "bad", "h"), 2))
    assert found == [0]


def test_what_was_read_before_an_error_is_returned_first() -> None:
    found = list[int]()
    with pytest.raises(DataError, match="not UTF-8"):
        found.extend(first for first, _ in corpus.in_processes(shout, lines(*"abc", failure="not UTF-8"), 2))
    assert found == [0, 2]


def test_a_reader_may_stop_early() -> None:
    results = corpus.in_processes(shout, lines(*map(str, range(40))), 2)
    assert next(results)[0] == 0
    results.close()  # type: ignore[attr-defined]


def test_a_batch_ends_with_the_line_that_makes_it_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BATCH_LINES", 9)
    monkeypatch.setattr(corpus, "BATCH_CHARACTERS", 5)
    found = list(corpus.batches(lines("aaa", "bb", "c", "dddddd", "e")))
    assert [([text for text, _ in batch], first) for batch, first in found] == [
        (["aaa", "bb"], 0),
        (["c", "dddddd"], 2),
        (["e"], 4),
    ]
