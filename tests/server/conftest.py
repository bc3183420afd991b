"""Small trained runs to serve."""

from pathlib import Path

import pytest
import torch

from stepedit.runs import make_trainer, wanted

SMALL = {"numbers": 20, "length": 3, "size": 400, "hidden": 16, "heads": 2, "layers": 1, "batch": 32, "rate": 0.005}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run for each method, of the same task."""
    folder = tmp_path_factory.mktemp("served")
    for method, epochs in (("recurrence", 60), ("tagging", 2), ("end2end", 2)):
        asked = wanted({"task": "sort", "method": method, "max_epochs": epochs, "validate_every": epochs, **SMALL})
        trainer = make_trainer(asked, folder / method)
        trainer.begin()
        for _ in trainer.fit():
            pass
    torch.set_flush_denormal(False)  # hypothesis needs floats to be whole
    return folder
