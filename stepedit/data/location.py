"""Where the data of a run are, and whether they are still those that it was trained on.

A run stores the absolute path of its data and a hash of their content. A run that was moved or exported finds them in
its own folder, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path

from stepedit.config import RunSettings
from stepedit.errors import DataError

SPLIT_FILES = tuple(f"{name}_{side}.txt" for name in ("train", "val", "test") for side in "xy")
SHORT_NAME, SHORT_HASH = 40, 8  # characters


@dataclass(frozen=True)
class Location:
    """A folder of splits, a file of pairs, or parallel files: sources and one or more of targets."""

    data: Path
    target_files: tuple[Path, ...] = ()

    def exists(self) -> bool:
        """Whether the data are there."""
        return all(path.exists() for path in (self.data, *self.target_files))

    def hash(self) -> str:
        """Return the SHA-256 of a file or, of several files, that of a list of theirs, as `sha256sum` writes it."""
        if self.target_files:
            names = ["target", *(f"target{number}" for number in range(1, len(self.target_files)))]
            files = {"source": self.data, **dict(zip(names, self.target_files, strict=True))}
        elif self.data.is_dir():
            files = {name: self.data / name for name in SPLIT_FILES if (self.data / name).exists()}
        else:
            return _hash(self.data)
        return sha256("".join(f"{_hash(path)}  {name}\n" for name, path in files.items()).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the file or folder, without the path to it."""
        return self.data.absolute().name


def label(name: str, digest: str) -> str:
    """Return the part of a file name that says which data it is about: `other-NAME-HASH`."""
    short = re.sub(r"[^\w]+", "-", Path(name).stem).strip("-")[:SHORT_NAME]
    return f"other-{short or 'pairs'}-{digest[:SHORT_HASH]}"


def of_run(run: RunSettings, folder: Path | None, changed: bool = False) -> Location:
    """Return where the data of a run in a folder are; DataError if they are gone, or others (unless `changed`)."""
    places = [place for place in _places(run, folder) if place.exists()]
    if not places:
        advice = f"put {Path(str(run.data)).name} into {folder}, or " if folder else ""
        raise DataError(
            f"{run.data}: the training pairs of this run are not here; {advice}evaluate other pairs with --data"
        )
    same = [place for place in places if run.data_hash in (None, place.hash())]
    if not same and not changed:
        raise DataError(
            f"the data in {places[0].data} are not those this run was trained on; `evaluate --changed-data` takes them"
        )
    return (same or places)[0]


def _places(run: RunSettings, folder: Path | None) -> list[Location]:
    """Return where the data of a run may be: where they were, or in its folder; never relative to where one is."""
    data, *targets = (Path(path) for path in (str(run.data), *(run.target_file or ())))
    paths = [Location(data, tuple(targets))] if all(path.is_absolute() for path in (data, *targets)) else []
    if folder is not None:
        paths.append(Location(folder / data, tuple(folder / path for path in targets)))
        paths.append(Location(folder / data.name, tuple(folder / path.name for path in targets)))
    return paths


def _hash(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        raise DataError(f"{path}: no such file or folder") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
