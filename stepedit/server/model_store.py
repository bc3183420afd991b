"""The models of a server, by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stepedit.errors import UserError
from stepedit.inference.editor import Editor
from stepedit.inference.model_folder import shipped_models
from stepedit.registry import did_you_mean


class ModelStore:
    """Loaded models; the first one is the default."""

    def __init__(self, editors: dict[str, Editor]) -> None:
        self.editors = editors

    @classmethod
    def load(cls, folders: Sequence[str], num_threads: int | None = None) -> ModelStore:
        """Load runs from folders or, without any, all models that come with stepedit."""
        chosen = list(folders) or shipped_models()
        if not chosen:
            raise UserError("no model comes with this stepedit; train one and name its folder: stepedit serve runs/x")
        editors: dict[str, Editor] = {}
        for folder in chosen:
            name = Path(folder).resolve().name if Path(folder).exists() else folder
            if name in editors:
                raise UserError(f"two runs are called {name!r}; rename one of their folders")
            editors[name] = Editor.load(folder, num_threads)
        return cls(editors)

    def __getitem__(self, name: str) -> Editor:
        if name not in self.editors:
            raise UserError(did_you_mean("model", name, self.editors))
        return self.editors[name]
