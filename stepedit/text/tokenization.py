"""Tokenization without loss: joining the tokens always gives the same text again.

    char   every character (code point) is a token
    word   a word or a punctuation mark is a token, together with the space before it; any other white space, one
           character at a time; the first word is treated as if a space stood before it, so that it is the same token
           as elsewhere

At word level, capitalization is a token of its own. `The` and `the` are the same word, any word can be capitalized,
even an unknown one, and that is an edit one can read:

    The cat saw NASA.   ->   <Cap> |  the |  cat |  saw | <CAPS> |  nasa | .

No word can be confused with these two signs, because `<` is never in one token with letters. A word that is cased in
another way (`iPhone`) is kept as it is. Scripts without spaces between words are tokenized by character.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

Level = Literal["word", "char"]
QUOTES = "\"'`"  # beside those of Unicode's categories of opening and closing marks
MARKS = ("Pc", "Pd", "Po", "Sc", "Sk", "Sm", "So")  # Unicode's categories of punctuation and symbols
CAP, CAPS = "<Cap>", "<CAPS>"
COMMON = "0-9A-Z_a-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u0400-\u0481\u048a-\u04ff"  # letters that are found at once
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"


@lru_cache(maxsize=1)
def _letter() -> str:
    """Pattern of a letter or digit with its combining marks, or of several common ones."""
    marks = "".join(
        re.escape(character)
        for character in map(chr, (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)))
        if unicodedata.category(character)[0] == "M" and not re.match(f"[{UNSPACED}]", character)
    )
    return rf"(?:[{COMMON}]++[{marks}]*|(?![{UNSPACED}])\w[{marks}]*)"


def _word() -> str:
    """Pattern of a word: letters, apostrophes inside."""
    return rf"{_letter()}+(?:['’]{_letter()}+)*"


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    """Pattern of a token: a word or mark with the space before it, or one white-space character."""
    return re.compile(rf" ?(?:{_word()}|[^\s])|\s")


@lru_cache(maxsize=1)
def _words() -> re.Pattern[str]:
    return re.compile(rf"{_word()}|[{UNSPACED}]+")


@lru_cache(maxsize=1)
def _atoms() -> re.Pattern[str]:
    return re.compile(rf"{_letter()}+|[^\s]")


def atom_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each run of letters and digits, and of each other character but white space."""
    return [found.span() for found in _atoms().finditer(text)]


def continues_word(character: str) -> bool:
    """Whether a character beside a word would be read as part of it; in scripts without spaces none is."""
    if re.match(f"[{UNSPACED}]", character):
        return False
    return character.isalnum() or character == "_" or unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf")


@lru_cache(maxsize=1)
def _one_word() -> re.Pattern[str]:
    return re.compile(_word())


def is_word(text: str) -> bool:
    """Whether a text is one word without digits; letters may have combining marks, and apostrophes stand inside."""
    if text.isascii() and text.isalpha():
        return True
    return _one_word().fullmatch(text) is not None and all(map(_is_part_of_word, text))


def is_ending(text: str) -> bool:
    """Whether a text is what a word may end or begin with: letters, their marks, apostrophes."""
    return all(map(_is_part_of_word, text))


def _is_part_of_word(character: str) -> bool:
    return character.isalpha() or character in "'’" or unicodedata.category(character)[0] == "M"


def fold(text: str) -> str:
    """Return a text normalized for lookup: case, apostrophes and combining marks folded."""
    if text.isascii():  # most words: nothing to normalize
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold().replace("’", "'"))


def words(text: str) -> list[str]:
    """Return the words of a text normalized for lookup."""
    return [word for word in _words().findall(fold(text)) if not word.isdigit()]


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word."""
    return [found.span() for found in _words().finditer(text) if len(words(found[0])) == 1]


def written_like(model: str, word: str) -> str:
    """Return a word with the case, apostrophe and Unicode normalization of another."""
    if "’" in model:
        word = word.replace("'", "’")
    if word == word.lower() and model[:1].isupper():
        word = word.upper() if model.isupper() and len(model) > 1 else word[:1].upper() + word[1:]
    return word if unicodedata.is_normalized("NFC", model) else unicodedata.normalize("NFD", word)


def split(text: str, level: Level) -> list[str]:
    """Tokenize a text."""
    if level == "char" or not text:
        return list(text)
    return [token for piece in words_and_marks(text) for token in _split_case(piece)]


def words_and_marks(text: str) -> list[str]:
    """Return the words and marks of a text, each with the space before it, in the case that they have."""
    return _pattern().findall(f" {text}") if text else []


def _split_case(piece: str) -> tuple[str, ...]:
    """Return a word as its case sign and its lower-case form, if that can be undone."""
    lower = piece.lower()
    if lower == piece:
        return (piece,)
    for sign in (CAP, CAPS):
        if _with_case(lower, sign) == piece:
            return sign, lower
    return (piece,)


def _with_case(word: str, sign: str) -> str:
    """Return a word (with the space before it, if any) in the case that a sign stands for."""
    if sign == CAPS:
        return word.upper()
    space = word[:1] == " "
    return word[:space] + word[space : space + 1].upper() + word[space + 1 :]


def pieces(tokens: Sequence[str], level: Level) -> list[str]:
    """Return what each token contributes to the text; nothing for a case sign, which changes the token after it."""
    if level == "char":
        return list(tokens)
    shown, sign = list[str](), ""
    for token in tokens:
        if token in (CAP, CAPS):
            shown.append("")
            sign = token
        else:
            shown.append(_with_case(token, sign) if sign else token)
            sign = ""
    first = next((index for index, piece in enumerate(shown) if piece), None)
    if first is not None:
        shown[first] = shown[first].removeprefix(" ")
    return shown


def join(tokens: Sequence[str], level: Level) -> str:
    """Return the text of some tokens."""
    return "".join(pieces(tokens, level))


def as_mark(token: str) -> str:
    """Return the mark or symbol that a token is, without the space before it; of words, brackets and quotes nothing."""
    core = token.removeprefix(" ")
    return core if len(core) == 1 and core not in QUOTES and unicodedata.category(core) in MARKS else ""


def shape(token: str) -> str:
    """Return what a network sees of an unknown token: space before it, ending, whether it is a number or a mark."""
    core = token.removeprefix(" ")
    kind = "9" if any(map(str.isdigit, core)) else "a" if core.isalpha() else unicodedata.category(core[-1:] or " ")
    return f"{token[:1] == ' '}{kind}{core[-2:].lower() if kind == 'a' and len(core) > 1 else ''}"


def spelling(token: str) -> tuple[str, str, str, str]:
    """Return the characters of a token that a network can see: the first, the first and last three, the first five."""
    core = token.removeprefix(" ").lower()
    return core[:1] or " ", core[:3], core[-3:], core[:5]
