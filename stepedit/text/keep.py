"""Words that stay: a list of right words that comes with a model.

Where a text is edited word by word, a word of the list is not edited, and another word is only changed to one of the
list. A word that is not in it but written like a name, or with accents beside a list of plain letters, stays, too.

The file is plain text, one word a line, whatever its case; a line that begins with `#` is a comment. It may be
compressed with gzip.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path

from stepedit.errors import DataError
from stepedit.text import tokenization

POSSESSIVE = "'s"
PLAIN_SHARE = 0.9  # of a list's words without accents or other letters beyond ASCII, so that others are foreign to it
MAX_BYTES = 1 << 25  # of a file of words, unpacked


class Keep:
    """A set of words; the possessive of a word belongs to it."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = frozenset(_normalized(word) for word in words)
        self.is_plain = sum(map(str.isascii, self.words)) > PLAIN_SHARE * len(self.words)

    @classmethod
    def read(cls, path: Path) -> Keep:
        """Read a file of words; DataError if it is damaged or has none."""
        words = read_words(path)
        if not words:
            raise DataError(f"{path}: expected one word on each line")
        return cls(words)

    def __contains__(self, word: object) -> bool:
        if not isinstance(word, str):
            return False
        found = _normalized(word)
        return found in self.words or found.removesuffix(POSSESSIVE) in self.words

    def is_foreign(self, word: str) -> bool:
        """Whether a word has letters that the words of this list hardly have: `über` beside English words."""
        return self.is_plain and not _normalized(word).isascii()

    def has_all(self, text: str) -> bool:
        """Whether each word of a text belongs to the list; words are what stands between spaces."""
        return all(map(self.__contains__, text.split()))


def read_words(path: Path) -> list[str]:
    """Return the words of a file in its order; DataError if it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
            if content[:2] == b"\x1f\x8b":
                file.seek(0)
                content = gzip.GzipFile(fileobj=file).read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise DataError(f"{path}: more than {MAX_BYTES:,} bytes are too many for a list of words")
        text = content.decode()
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise DataError(f"{path}: damaged ({error})") from None
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _normalized(word: str) -> str:
    """Return a word as it is looked up: case, apostrophes and combining marks folded."""
    return tokenization.fold(word)
