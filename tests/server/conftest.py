"""Small trained runs to serve."""

import os
from pathlib import Path

import pytest

from stepedit import train
from stepedit.server.model_store import ModelStore

SMALL = {
    "numbers": 20,
    "length": 3,
    "num_examples": 400,
    "hidden_size": 16,
    "num_heads": 2,
    "num_layers": 1,
    "batch_size": 32,
    "learning_rate": 0.005,
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run per method, all of the same task; STEPEDIT_TEST_RUNS names a folder to keep them in."""
    folder = Path(os.environ.get("STEPEDIT_TEST_RUNS") or tmp_path_factory.mktemp("served"))
    for method, epochs in (("recurrence", 60), ("tagging", 2), ("end2end", 2)):
        if (folder / method).exists():
            continue
        train("sort", out=folder / method, method=method, max_epochs=epochs, eval_every=epochs, **SMALL)
    return folder


@pytest.fixture(scope="session")
def store(runs: Path) -> ModelStore:
    """The runs, loaded."""
    return ModelStore.load([str(runs / name) for name in ("recurrence", "tagging", "end2end")])
