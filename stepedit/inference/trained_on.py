"""What a model was trained on, as hashes: `evaluate` can tell which pairs of other data are not new to it.

    trained-on.safetensors   sorted 64-bit hashes (blake2b) of the different training targets and, where training does
                             not draw new ones every epoch, of the sources

At most `MAX_HASHES` of each are kept, the smallest ones, which is a random sample; the file says how many there were.
Pairs that self-training finds are not among them. `train` writes the file. For a folder without it, if its data can be
read or generated again:

    python -m stepedit.inference.trained_on FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
import numpy.typing as npt

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

    @property
    def complete(self) -> bool:
        """Whether no hash was left out."""
        return (len(self.targets), len(self.sources)) == (self.num_targets, self.num_sources)

    def has_target(self, texts: Sequence[str]) -> BoolArray:
        """Return (B,) whether each text was a training target."""
        return np.isin(text_hashes(texts), self.targets)

    def has_source(self, texts: Sequence[str]) -> BoolArray:
        """Return (B,) whether each text was a training source."""
        return np.isin(text_hashes(texts), self.sources)

    def write(self, folder: Path) -> None:
        """Write the file of a model's folder, atomically."""
        facts = {"hash": "blake2b, 8 bytes", "num_targets": self.num_targets, "num_sources": self.num_sources}
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
        return TrainedOn(targets, sources, int(facts["num_targets"]), int(facts["num_sources"]))
    except (KeyError, ValueError, TypeError):
        raise DataError(f"{path}: damaged") from None


if __name__ == "__main__":
    for name in sys.argv[1:]:
        settings = read_config(Path(name))
        TrainedOn.from_splits(load(settings, make_task(settings))).write(Path(name))
