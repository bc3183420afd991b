"""What a model was trained on, as hashes: `evaluate` can tell which pairs of other data are not new to it.

    trained-on.safetensors   sorted 64-bit hashes (blake2b) of the different training targets and, where training does
                             not draw new ones every epoch, of the sources

At most `MAX_HASHES` of each are kept, the smallest ones, which is a random sample; the file says how many there were.
`train` writes the file when a run begins, and at the end of self-training again, with the pairs that it found; until
then the file says that it is partial. For a folder without it, if its data can be read or generated again:

    python -m stepedit.inference.trained_on FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

from stepedit.config import RunSettings
from stepedit.data.dataset import Loaded, load
from stepedit.editing.sequences import BoolArray
from stepedit.errors import DataError
from stepedit.inference.model_folder import TRAINED_ON, make_task, read_config, read_tensors, write_tensors

MAX_HASHES = 100_000
Hashes = npt.NDArray[np.uint64]


def text_hashes(texts: Iterable[str]) -> Hashes:
    """Return a 64-bit hash of each text, the same on every machine."""
    digests = b"".join(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, "<u8").astype(np.uint64)


@dataclass(frozen=True)
class TrainedOn:
    """Hashes of training texts."""

    targets: Hashes
    sources: Hashes
    num_targets: int  # before the limit
    num_sources: int
    partial: bool = False  # without pairs that self-training found

    @classmethod
    def from_texts(cls, sources: Iterable[str], targets: Iterable[str], limit: int | None = None) -> TrainedOn:
        """Return the hashes of these texts, at most `limit` of each side."""
        kept = [np.unique(text_hashes(texts)) for texts in (targets, sources)]
        return cls(kept[0][:limit], kept[1][:limit], len(kept[0]), len(kept[1]))

    @classmethod
    def from_splits(cls, splits: Loaded) -> TrainedOn:
        """Return the hashes of the training split of a run, at most `MAX_HASHES` of each side."""
        lines = splits.lines("train")
        return cls.from_texts([] if splits.task.resamples_sources else lines.sources, lines.targets, MAX_HASHES)

    @classmethod
    def of_run(cls, run: RunSettings, splits: Loaded) -> TrainedOn:
        """Return what a run is trained on when it begins."""
        return replace(cls.from_splits(splits), partial=run.mode == "self-training")

    def including(self, sources: Iterable[str], targets: Iterable[str]) -> TrainedOn:
        """Return the same with the pairs that self-training found."""
        new = TrainedOn.from_texts(sources, targets)
        kept = [np.union1d(self.targets, new.targets), np.union1d(self.sources, new.sources)]
        sizes = self.num_targets + len(kept[0]) - len(self.targets), self.num_sources + len(kept[1]) - len(self.sources)
        return TrainedOn(kept[0][:MAX_HASHES], kept[1][:MAX_HASHES], *sizes)

    @property
    def complete(self) -> bool:
        """Whether no hash was left out."""
        return not self.partial and (len(self.targets), len(self.sources)) == (self.num_targets, self.num_sources)

    def has_target(self, texts: Sequence[str]) -> BoolArray:
        """Return (B,) whether each text was a training target."""
        return np.isin(text_hashes(texts), self.targets)

    def has_source(self, texts: Sequence[str]) -> BoolArray:
        """Return (B,) whether each text was a training source."""
        return np.isin(text_hashes(texts), self.sources)

    def write(self, folder: Path) -> None:
        """Write the file of a model's folder, atomically."""
        facts = {"hash": "blake2b, 8 bytes", "num_targets": self.num_targets, "num_sources": self.num_sources}
        facts |= {"partial": True} if self.partial else {}
        write_tensors(folder / TRAINED_ON, {"targets": self.targets, "sources": self.sources}, facts)


def read_trained_on(folder: Path) -> TrainedOn | None:
    """Return what a model was trained on; None if its folder does not say, DataError if the file is damaged."""
    path = folder / TRAINED_ON
    if not path.exists():
        return None
    tensors, facts = read_tensors(path)
    try:
        targets, sources = tensors["targets"], tensors["sources"]
        if any(each.dtype != np.uint64 or each.ndim != 1 for each in (targets, sources)):
            raise ValueError
        sizes = int(facts["num_targets"]), int(facts["num_sources"])
        return TrainedOn(targets, sources, *sizes, partial=bool(facts.get("partial")))
    except (KeyError, ValueError, TypeError, OverflowError):
        raise DataError(f"{path}: damaged") from None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        settings = read_config(Path(name))
        TrainedOn.of_run(settings, load(settings, make_task(settings))).write(Path(name))
