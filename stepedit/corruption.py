"""Pairs made from plain text that is right: each line, and the same line spoiled.

    punctuation   marks between words are dropped
    case          all letters are small
    spaces        blanks between words are dropped, some of them
    typos         letters are left out, doubled, exchanged or replaced, some of them

Without a text, the sentences of Python's own help topics serve, which every installation has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from stepedit.errors import UserError
from stepedit.registry import did_you_mean

PUNCTUATION = re.compile(r"(?<=[\w\"'”’)\]])[.,;:!?。，、；：！？؟،؛।]+(?=[\s\"'”’)\]]|$)|(?<=\w)[。，、；：！？]")
PROSE = re.compile(r"\w+ (?:.* )?[^\W\d_]+.*[.!?:]")
WAYS = ("punctuation", "case", "spaces", "typos")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def spoiled(text: str, ways: Iterable[str], rate: float, rng: np.random.Generator) -> str:
    """A text with these things taken from it; `rate` is for spaces and typos."""
    for way in ways:
        if way == "punctuation":
            text = PUNCTUATION.sub("", text)
        elif way == "case":
            text = text.lower()
        elif way == "spaces":
            text = re.sub(" ", lambda match: "" if rng.random() < rate else match[0], text)
        elif way == "typos":
            text = _mistyped(text, rate, rng)
        else:
            raise UserError(did_you_mean("thing to drop", way, WAYS))
    return text


def _mistyped(text: str, rate: float, rng: np.random.Generator) -> str:
    letters, place = list(text), 0
    while place < len(letters):
        if letters[place].isalpha() and rng.random() < rate:
            stray = LETTERS[int(rng.integers(len(LETTERS)))]
            match int(rng.integers(4)):
                case 0:
                    letters[place] = ""
                case 1:
                    letters[place] *= 2
                case 2:
                    letters[place] = stray
                case _:
                    letters[place : place + 2] = letters[place : place + 2][::-1]
                    place += 1
        place += 1
    return "".join(letters)


def help_sentences() -> list[str]:
    """The sentences of Python's help topics, without code and tables."""
    from pydoc_data.topics import topics

    return [sentence for name in sorted(topics) for sentence in sentences(topics[name])]


def sentences(text: str) -> Iterator[str]:
    """The sentences of plain text: of paragraphs that read like prose, not like code or a table."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in paragraph.split("\n") if line.strip()]
        if any(line[0] in "+|*-=>#" or "::=" in line or line.endswith(("=", "{", "(")) for line in lines):
            continue
        for sentence in re.split(r"(?<=[.!?]) +(?=[^\W\d_])", " ".join(lines)):
            if sentence[:1].isupper() and PROSE.fullmatch(sentence):
                yield sentence
