"""What a person wants kept: words, phrases and patterns that no edit may touch; addresses, code and numbers.

    Acme             a word or phrase, whatever its case, where it stands as a word of its own
    case:Apple       the same, in this case only
    /INV-[0-9]+/     a regular expression, whatever its case; case:/.../ in this case only

A file has one of these a line; a line that begins with `#` is a comment (`/#name/` keeps a hashtag). `KeepList.spans`
and `code_spans` return the characters of a text that stay. (`text.keep` is another list: the right words that come with
a model.)

A pattern is searched line by line, and only in lines that are not too long. A longer line is kept as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from stepedit.errors import DataError, UserError, located, shown
from stepedit.files import read_lines
from stepedit.text import tokenization

CASE = "case:"
MAX_PATTERN = 200  # characters of a pattern
MAX_PATTERNS = 100
MAX_TIMES = 8  # that a group with a repeat, an option or an alternative in it may be repeated
MAX_LINE = 5_000  # characters of a line in which patterns are searched

Span = tuple[int, int]  # characters of a text: start and end


class _Phrase(NamedTuple):
    """A word or several, as atoms (`tokenization.atom_spans`)."""

    atoms: tuple[str, ...]  # folded, unless its case matters
    spaced: tuple[bool, ...]  # whether white space comes before each but the first
    case: bool


@dataclass(frozen=True)
class KeepList:
    """Words, phrases and patterns that stay; UserError if one of them cannot be used."""

    entries: tuple[str, ...]
    _phrases: dict[str, list[_Phrase]] = field(init=False, repr=False, compare=False)  # by their first atom, folded
    _patterns: list[re.Pattern[str]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        phrases: dict[str, list[_Phrase]] = {}
        patterns = list[re.Pattern[str]]()
        for entry in self.entries:
            if is_pattern(entry):
                patterns.append(_pattern(entry))
            else:
                first, phrase = _phrase(entry)
                phrases.setdefault(first, []).append(phrase)
        if len(patterns) > MAX_PATTERNS:
            raise UserError(f"{len(patterns)} patterns to keep; {MAX_PATTERNS} is the limit")
        object.__setattr__(self, "_phrases", phrases)
        object.__setattr__(self, "_patterns", patterns)

    @classmethod
    def of(cls, entries: Iterable[str]) -> KeepList:
        """Return a list of entries without those that are empty or repeated."""
        return cls(tuple(dict.fromkeys(entry.strip() for entry in entries if entry.strip())))

    @classmethod
    def read(cls, path: Path) -> KeepList:
        """Read a file; DataError gives the line that cannot be used."""
        entries = list[str]()
        for number, line in enumerate(read_lines(path), start=1):
            if line.strip() and not line.startswith("#"):
                with located(f"{path}:{number}"):
                    entries += cls.of([line]).entries
        if not entries:
            raise DataError(f"{path}: expected a word, phrase or /pattern/ on each line")
        with located(str(path)):
            return cls.of(entries)

    def spans(self, text: str) -> list[Span]:
        """Return the spans of a text that stay, from left to right; none overlaps another."""
        return merged([*self._phrase_spans(text), *self._pattern_spans(text)])

    def _phrase_spans(self, text: str) -> Iterator[Span]:
        if not self._phrases:
            return
        places = tokenization.atom_spans(text)
        atoms = [text[start:end] for start, end in places]
        folded = [_folded(atom) for atom in atoms]
        for index, atom in enumerate(folded):
            for phrase in self._phrases.get(atom, ()):
                end = index + len(phrase.atoms)
                if phrase.atoms == tuple((atoms if phrase.case else folded)[index:end]) and phrase.spaced == tuple(
                    _spaced(places[index:end])
                ):
                    yield places[index][0], places[end - 1][1]

    def _pattern_spans(self, text: str) -> Iterator[Span]:
        begin = 0
        for line in text.splitlines(keepends=True) if self._patterns else ():
            if len(line) > MAX_LINE:
                yield _trimmed(text, begin, begin + len(line))
            else:
                for pattern in self._patterns:
                    yield from (_trimmed(text, begin + start, begin + end) for start, end in _found(pattern, line))
            begin += len(line)


def is_pattern(entry: str) -> bool:
    """Whether an entry is a regular expression."""
    body = entry.strip().removeprefix(CASE).strip()
    return len(body) > 1 and body[0] == body[-1] == "/"


def _pattern(entry: str) -> re.Pattern[str]:
    body = entry.removeprefix(CASE).strip()[1:-1]
    if not body:
        raise UserError("an empty pattern: //")
    if len(body) > MAX_PATTERN:
        raise UserError(f"a pattern of {len(body)} characters; {MAX_PATTERN} is the limit: {shown(entry)}")
    if _repeats_a_repeat(body):
        raise UserError(f"a repeated group with a repeat or an alternative in it can take for ever: {shown(entry)}")
    try:
        return re.compile(body, 0 if entry.startswith(CASE) else re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise UserError(f"not a regular expression ({error}): {shown(entry)}") from None


def _repeats_a_repeat(pattern: str) -> bool:
    """Whether a group that is repeated without limit has a repeat, an option or an alternative in it."""
    plain = re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", pattern)  # without escapes and sets
    if len(re.findall(r"\.(?:[*+]|\{\d*,\d*\})", plain)) > 1:
        return True  # what the one takes the other may take, too
    inside = [False]  # for each open group: whether it has such a thing
    for index, character in enumerate(plain):
        if character == "(":
            inside.append(False)
        elif character == ")" and len(inside) > 1:
            found = inside.pop()
            if found and _is_repeated(plain[index + 1 :]):
                return True
            inside[-1] |= found
        elif (
            character in "*+|"
            or (character == "?" and not re.search(r"(?:^|[(*+?]|\{\d*,?\d*\})$", plain[:index]))
            or re.match(r"\{\d*,\d*\}", plain[index:])
        ):
            inside[-1] = True
    return False


def _is_repeated(behind: str) -> bool:
    """Whether a group is repeated often, going by what is behind it."""
    times = re.match(r"\{(\d+)\}", behind)
    return bool(re.match(r"[*+]|\{\d*,\d*\}", behind)) or (times is not None and int(times[1]) > MAX_TIMES)


def _phrase(entry: str) -> tuple[str, _Phrase]:
    """Return a phrase and the folded atom that it begins with."""
    case = entry.startswith(CASE)
    words = entry.removeprefix(CASE).strip()
    places = tokenization.atom_spans(words)
    if not places:
        raise UserError(f"no word after `case:` in {shown(entry)}")
    atoms = [words[start:end] for start, end in places]
    folded = tuple(map(_folded, atoms))
    return folded[0], _Phrase(tuple(atoms) if case else folded, tuple(_spaced(places)), case)


def _folded(atom: str) -> str:
    return atom.lower() if atom.isascii() else tokenization.fold(atom)


def _spaced(places: Iterable[Span]) -> Iterator[bool]:
    return (before[1] < after[0] for before, after in pairwise(places))


def _found(pattern: re.Pattern[str], line: str) -> Iterator[Span]:
    return (found.span() for found in pattern.finditer(line))


def _trimmed(text: str, start: int, end: int) -> Span:
    """Return a span without the white space at its ends."""
    found = text[start:end]
    return start + len(found) - len(found.lstrip()), start + len(found.rstrip())


def merged(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that overlap as one, without empty ones."""
    result = list[Span]()
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if result and start < result[-1][1]:
            result[-1] = result[-1][0], max(end, result[-1][1])
        else:
            result.append((start, end))
    return result


# addresses, code, numbers

_PAIRS = {")": "(", "]": "[", "}": "{"}
_CLOSING = ".,;:!?)]}>'\"’”"  # at the end of an address: part of the sentence around it
_ADDRESSES = re.compile(
    r"""(?:[a-z][a-z0-9+.-]{0,30}://|www\.)[^\s<>"`]+    # https://example.org/a?b=c
    |   (?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+         # ann@example.org
    |   (?<![\w.:@-])[\w-]+(?:\.[\w-]+)*:\d{2,5}(?![\w:])    # localhost:8000
    |   (?<![\w\\])[a-z]:\\[^\s<>"|?*]+                  # C:\Users\ann
    |   (?<![\w.@~/+-])(?:~|\.{0,2})/?[\w.@+-]*(?:/[\w.@+-]+)+/?   # src/main.py, ~/notes, /etc/hosts
    """,
    re.VERBOSE | re.IGNORECASE,
)
_BACKTICKS = re.compile("`+")
_FENCES = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n`]*\n.*?(?:^ {0,3}\1[`~]*[^\S\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(
    r"""(?<![\w.])\w+(?:\.[a-z_]\w*)+(?:\(\))?           # os.path.join()
    |   (?<!\w)\w*(?:\d|[^\W_]_|_[^\W_])\w*(?:[.,:/–-]\w*\d\w*)*(?:%|\(\))?   # 1,250.75 2024-05-01 utf8 foo_bar()
    |   (?<!\w)\w+\(\)                                   # main()
    |   (?<!\w)[^\W\d_]*[a-z][A-Z]\w*                    # camelCase
    """,
    re.VERBOSE,
)


def code_spans(text: str) -> list[Span]:
    """Return the spans of addresses, paths, code in backticks and in fenced blocks, identifiers and numbers."""
    addresses = [(start, start + len(_without_closing(text[start:end]))) for start, end in _found(_ADDRESSES, text)]
    return merged([*addresses, *_found(_CODE, text), *_found(_FENCES, text), *_in_backticks(text)])


def _without_closing(address: str) -> str:
    """Return an address without the marks that close the text around it; brackets that it opens are its own."""
    unopened = {closing: address.count(closing) - address.count(opening) for closing, opening in _PAIRS.items()}
    end = len(address)
    while end and address[end - 1] in _CLOSING and unopened.get(address[end - 1], 1) > 0:
        end -= 1
        if address[end] in unopened:
            unopened[address[end]] -= 1
    return address[:end]


def _in_backticks(text: str) -> Iterator[Span]:
    """Yield the spans of code in backticks: from one run of them to the next of the same length, in one line."""
    begin = 0
    for line in text.splitlines(keepends=True):
        runs = [found.span() for found in _BACKTICKS.finditer(line)]
        same: dict[int, list[int]] = {}
        for index, (start, end) in enumerate(runs):
            same.setdefault(end - start, []).append(index)
        index = 0
        while index < len(runs):
            start, end = runs[index]
            others = same[end - start]
            place = bisect_right(others, index)
            if place < len(others):
                index = others[place]
                yield begin + start, begin + runs[index][1]
            index += 1
        begin += len(line)
