"""Files: read lines of UTF-8, write files and folders atomically, read and write JSON, lock a folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from platform import node
from typing import Any

from stepedit.errors import DataError

_CALLS = count()  # so that threads of a process do not share a temporary name either
_OPEN = set[Path]()  # temporary files and folders that this process is writing
BYTE_ORDER_MARK = b"\xef\xbb\xbf"  # at the beginning of a file that some programs write; no part of its text
LOCK = ".lock"
MAX_JSON_BYTES = 16 << 20  # far more than the largest vocabulary takes
LOCK_TIMEOUT = 5.0  # seconds to wait for another process to release a folder


def read_lines(path: Path) -> Iterator[str]:
    """Yield the lines of a UTF-8 file without line ends and byte-order mark; DataError if it is missing or damaged."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    if not raw.strip():
        raise DataError(f"{path}: the file is empty")
    for number, line in enumerate(raw.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            text = line.removesuffix(b"\r").decode()
        except UnicodeDecodeError as error:
            byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
            raise DataError(f"{path}:{number}: not UTF-8 ({byte})") from None
        yield text


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file through a temporary one, so that a reader sees the old content or the new, never a part.

    The temporary name is unique, so that several processes may write the same file: the last one wins.
    """
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file to write")
    with _partial(path) as partial:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


@contextmanager
def new_folder(path: Path, replace: bool = False) -> Iterator[Path]:
    """Yield a folder to fill that becomes `path` in one step when the block ends, and is removed if it fails.

    OSError if there is something at `path` by then, unless it is to be replaced.
    """
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    with _partial(path) as temporary:
        (temporary / "new").mkdir(parents=True)
        yield temporary / "new"
        if replace and path.exists():
            path.rename(temporary / "old")  # in one step, so that no half of it is ever left
        try:
            (temporary / "new").rename(path)
        except OSError as error:  # another process has put something there meanwhile
            if not path.exists():
                raise
            raise FileExistsError(error.errno, "it exists already", str(path)) from None


@contextmanager
def _partial(path: Path) -> Iterator[Path]:
    """Yield a unique temporary name beside `path`; what has that name in the end is removed."""
    # the machine is part of the name: others may share its file system, and their process ids mean nothing here
    prefix = f".{path.name}.partial-{node().partition('.')[0]}-"
    _remove_leftovers(path.parent, prefix)
    partial = path.with_name(f"{prefix}{os.getpid()}-{next(_CALLS)}")
    _OPEN.add(partial)
    try:
        yield partial
    finally:
        _remove(partial)
        _OPEN.discard(partial)


def _remove_leftovers(folder: Path, prefix: str) -> None:
    """Remove temporary files and folders of killed processes; those of live processes stay."""
    for path in folder.iterdir():
        pid = path.name.removeprefix(prefix).partition("-")[0]
        if not path.name.startswith(prefix) or not pid.isdecimal() or path in _OPEN:
            continue
        if int(pid) == os.getpid() or not _is_alive(int(pid)):  # process ids are reused, above all in containers
            _remove(path)


def _remove(path: Path) -> None:
    """Remove a file or folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
    """Create the folder and hold its lock; DataError if another process holds it.

    If the block fails and has left nothing in a folder that was created here, the folder is removed.
    """
    from filelock import FileLock, Timeout

    created = _missing_folders(folder)
    lock = FileLock(folder / LOCK, timeout=timeout)
    while not lock.is_locked:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except FileNotFoundError:  # removed by a process that has failed
            continue
        except Timeout:
            raise DataError(f"{folder}: another process is working on this run") from None
    try:
        yield
    except BaseException:
        _remove_empty(folder, created)
        raise
    finally:
        lock.release()


def _missing_folders(folder: Path) -> list[Path]:
    """Return a folder and its parents as far as they do not exist, the innermost first."""
    return [each for each in (folder, *folder.parents) if not each.exists()]


def _remove_empty(folder: Path, created: list[Path]) -> None:
    """Remove a folder of this process with nothing but a lock in it, and its parents, if they were created for it."""
    if created and list(folder.iterdir()) == [folder / LOCK]:
        (folder / LOCK).unlink()  # while it is held: a waiting process tries again with a new one
        with suppress(OSError):  # another process has begun to use one of them
            for each in created:
                each.rmdir()
