"""Text cut into tokens without loss: what is cut can always be joined to the very same text again.

    char   every letter (code point) is a token
    word   a word or a mark is a token, with the blank before it; whatever else is white, one by one; the first word is
           taken to have a blank before it, too, so that it is the same word there as elsewhere

At word level, capitals are tokens of their own, so that `The` and `the` are the same word, any word can be given a
capital, even an unknown one, and that is an edit one can read:

    The cat saw NASA.   ->   <Cap> |  the |  cat |  saw | <CAPS> |  nasa | .

No word can be mistaken for these two signs, because `<` is never in one token with letters. A word that is written
otherwise (`iPhone`) is left as it is. Scripts without blanks between words are cut letter by letter.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

Level = Literal["word", "char"]
CAP, CAPS = "<Cap>", "<CAPS>"
DENSE = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"


@lru_cache(maxsize=1)
def _word() -> str:
    """A pattern of a word: letters with the marks that are put on them, apostrophes inside."""
    joined = "".join(
        re.escape(letter)
        for letter in map(chr, (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)))
        if unicodedata.category(letter)[0] == "M" and not re.match(f"[{DENSE}]", letter)
    )
    letter = rf"(?:(?![{DENSE}])\w[{joined}]*)"
    return rf"{letter}+(?:['’]{letter}+)*"


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    """A word or a mark with the blank before it, or a single white letter."""
    return re.compile(rf" ?(?:{_word()}|[^\s])|\s")


@lru_cache(maxsize=1)
def _words() -> re.Pattern[str]:
    return re.compile(rf"{_word()}|[{DENSE}]+")


def words(text: str) -> list[str]:
    """The words of a text, as one looks them up: whatever their capitals, apostrophes and ways to write a mark."""
    folded = unicodedata.normalize("NFC", text).casefold().replace("’", "'")
    return [word for word in _words().findall(unicodedata.normalize("NFC", folded)) if not word.isdigit()]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Where the words of a text begin and end."""
    return [found.span() for found in _words().finditer(text) if len(words(found[0])) == 1]


def split(text: str, level: Level) -> list[str]:
    """The tokens of a text."""
    if level == "char" or not text:
        return list(text)
    return [token for piece in _pattern().findall(f" {text}") for token in _case_apart(piece)]


def _case_apart(piece: str) -> tuple[str, ...]:
    """A word as its capitals and itself in small letters, if that can be undone."""
    small = piece.lower()
    if small == piece:
        return (piece,)
    for sign in (CAP, CAPS):
        if _raised(small, sign) == piece:
            return sign, small
    return (piece,)


def _raised(word: str, sign: str) -> str:
    """A word (with the blank before it, if any) in the capitals that a sign stands for."""
    if sign == CAPS:
        return word.upper()
    blank = word[:1] == " "
    return word[:blank] + word[blank : blank + 1].upper() + word[blank + 1 :]


def pieces(tokens: Sequence[str], level: Level) -> list[str]:
    """What each token adds to the text: nothing for a sign, which raises the token behind it."""
    if level == "char":
        return list(tokens)
    shown, sign = list[str](), ""
    for token in tokens:
        if token in (CAP, CAPS):
            shown.append("")
            sign = token
        else:
            shown.append(_raised(token, sign) if sign else token)
            sign = ""
    first = next((index for index, piece in enumerate(shown) if piece), None)
    if first is not None:
        shown[first] = shown[first].removeprefix(" ")
    return shown


def join(tokens: Sequence[str], level: Level) -> str:
    """The text of some tokens."""
    return "".join(pieces(tokens, level))


def shape(token: str) -> str:
    """What is seen of a token that is not known: a blank before it, its ending, whether it is a number or a mark."""
    core = token.removeprefix(" ")
    kind = "9" if any(map(str.isdigit, core)) else "a" if core.isalpha() else unicodedata.category(core[-1:] or " ")
    return f"{token[:1] == ' '}{kind}{core[-2:].lower() if kind == 'a' and len(core) > 1 else ''}"
