"""Files: read lines of UTF-8, write atomically, read and write JSON, lock a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from stepedit.errors import DataError

LOCK = ".lock"
MAX_JSON_BYTES = 16 << 20  # far more than the largest vocabulary takes
LOCK_TIMEOUT = 5.0  # seconds to wait for another process to release a folder


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without line ends; DataError if it is missing, empty or not UTF-8."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    if not raw.strip():
        raise DataError(f"{path}: the file is empty")
    for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
            raise DataError(f"{path}:{number}: not UTF-8 ({byte})") from None
        yield text.removeprefix("\ufeff") if number == 1 else text


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file through a temporary one, so that a reader sees the old content or the new, never a part."""
    partial = path.with_name(f".{path.name}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically."""
    write_atomic(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def read_json(path: Path) -> Any:
    """Return the value of a JSON file; DataError if it is missing, damaged or larger than any that we write."""
    try:
        if (size := path.stat().st_size) > MAX_JSON_BYTES:
            raise DataError(f"{path}: {size:,} bytes are too many; {MAX_JSON_BYTES:,} is the limit")
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise DataError(f"{path.parent}: no run here ({path.name} is missing)") from None
    except DataError:
        raise
    except (ValueError, RecursionError):  # also integers of thousands of digits, and brackets as deep
        raise DataError(f"{path}: damaged (not valid JSON)") from None


@contextmanager
def locked(folder: Path, timeout: float = LOCK_TIMEOUT) -> Iterator[None]:
    """Create the folder and hold its lock; DataError if another process holds it."""
    from filelock import FileLock, Timeout

    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / LOCK, timeout=timeout)
    try:
        with lock:
            yield
    except Timeout:
        raise DataError(f"{folder}: another process is working on this run") from None
