"""The models that a server has, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepedit import checkpoints
from stepedit.editor import Editor
from stepedit.errors import UserError
from stepedit.registry import did_you_mean


class Shelf:
    """Loaded runs; the first is the one that is meant if none is named."""

    def __init__(self, editors: dict[str, Editor]) -> None:
        self.editors = editors

    @classmethod
    def load(cls, places: Sequence[str]) -> Shelf:
        """Runs from their folders, or all models that come with stepedit; UserError if there is none."""
        chosen = list(places) or checkpoints.shipped_models()
        if not chosen:
            raise UserError("no model comes with this stepedit; train one, and say its folder: stepedit serve runs/x")
        editors: dict[str, Editor] = {}
        for place in chosen:
            name = Path(place).resolve().name if Path(place).exists() else place
            if name in editors:
                raise UserError(f"two runs are called {name!r}; rename one of their folders")
            editors[name] = Editor.load(place)
        return cls(editors)

    def __getitem__(self, name: str) -> Editor:
        if name not in self.editors:
            raise UserError(did_you_mean("model", name, self.editors))
        return self.editors[name]
