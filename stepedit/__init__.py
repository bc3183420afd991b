"""Neural text editing, one edit at a time."""

from typing import Any

__version__ = "0.1.0"
__all__ = ["Editor", "__version__"]


def __getattr__(name: str) -> Any:
    """`from stepedit import Editor`, without making everyone wait for torch."""
    if name == "Editor":
        from stepedit.editor import Editor

        return Editor
    raise AttributeError(f"module 'stepedit' has no attribute {name!r}")
