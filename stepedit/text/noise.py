"""Synthetic noise: make sources from clean text, for training pairs.

    punctuation   remove punctuation marks between words
    case          lower-case all letters
    spaces        remove some spaces between words
    typos         delete, double, swap or replace some characters

Without a text of your own there are the sentences of Python's help topics, which every installation has.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from stepedit.errors import UserError
from stepedit.registry import did_you_mean

PUNCTUATION = re.compile(r"(?<=[\w\"'”’)\]])[.,;:!?。，、；：！？؟،؛।]+(?=[\s\"'”’)\]]|$)|(?<=\w)[。，、；：！？]")
PROSE = re.compile(r"\w+ (?:.* )?[^\W\d_]+.*[.!?:]")
NOISE = ("punctuation", "case", "spaces", "typos")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def add_noise(text: str, kinds: Iterable[str], rate: float, rng: np.random.Generator, strength: float = 1.0) -> str:
    """Return a text with noise of these kinds.

    `rate` is the probability of a removed space or a typo, `strength` that of a removed mark or capital.
    """
    for kind in kinds:
        if kind == "punctuation":
            text = PUNCTUATION.sub(lambda match: "" if _chosen(strength, rng) else match[0], text)
        elif kind == "case":
            text = re.sub(r"\S+", lambda match: match[0].lower() if _chosen(strength, rng) else match[0], text)
        elif kind == "spaces":
            text = re.sub(" ", lambda match: "" if rng.random() < rate else match[0], text)
        elif kind == "typos":
            text = _add_typos(text, rate, rng)
        else:
            raise UserError(did_you_mean("noise", kind, NOISE))
    return text


def _chosen(probability: float, rng: np.random.Generator) -> bool:
    return probability >= 1 or rng.random() < probability


def _add_typos(text: str, rate: float, rng: np.random.Generator) -> str:
    letters, index = list(text), 0
    while index < len(letters):
        if letters[index].isalpha() and rng.random() < rate:
            other = LETTERS[int(rng.integers(len(LETTERS)))]
            match int(rng.integers(4)):
                case 0:
                    letters[index] = ""
                case 1:
                    letters[index] *= 2
                case 2:
                    letters[index] = other
                case _:
                    letters[index : index + 2] = letters[index : index + 2][::-1]
                    index += 1
        index += 1
    return "".join(letters)


def help_sentences() -> list[str]:
    """Return the sentences of Python's help topics, without code and tables."""
    from pydoc_data.topics import topics

    return [sentence for name in sorted(topics) for sentence in sentences(topics[name])]


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of plain text, from paragraphs that are prose rather than code or tables."""
    for paragraph in re.split(r"\n\s*\n", text):
        lines = [line.strip() for line in paragraph.split("\n") if line.strip()]
        if any(line[0] in "+|*-=>#" or "::=" in line or line.endswith(("=", "{", "(")) for line in lines):
            continue
        for sentence in re.split(r"(?<=[.!?]) +(?=[^\W\d_])", " ".join(lines)):
            if sentence[:1].isupper() and PROSE.fullmatch(sentence):
                yield sentence
