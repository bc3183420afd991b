"""Neural text editing, one edit at a time.

The public API. Names are imported on first use, so that `import stepedit` does not load PyTorch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stepedit.registry import register_method, register_programmer, register_task

if TYPE_CHECKING:
    from stepedit.config import RunConfig as RunConfig
    from stepedit.config import TrainingConfig as TrainingConfig
    from stepedit.editing.trace import Step as Step
    from stepedit.evaluation.scores import evaluate as evaluate
    from stepedit.inference.decoding import Decoding as Decoding
    from stepedit.inference.editor import Editor as Editor
    from stepedit.inference.editor import EditResult as EditResult
    from stepedit.methods.base import Method as Method
    from stepedit.programmers.base import Programmer as Programmer
    from stepedit.tasks.base import Task as Task
    from stepedit.tasks.simple import SimpleTask as SimpleTask
    from stepedit.training.run import train as train

__version__ = "0.2.0"

_LAZY = {
    "Decoding": "stepedit.inference.decoding",
    "EditResult": "stepedit.inference.editor",
    "Editor": "stepedit.inference.editor",
    "Method": "stepedit.methods.base",
    "Programmer": "stepedit.programmers.base",
    "RunConfig": "stepedit.config",
    "SimpleTask": "stepedit.tasks.simple",
    "Step": "stepedit.editing.trace",
    "Task": "stepedit.tasks.base",
    "TrainingConfig": "stepedit.config",
    "evaluate": "stepedit.evaluation.scores",
    "train": "stepedit.training.run",
}

__all__ = [
    "Decoding",
    "EditResult",
    "Editor",
    "Method",
    "Programmer",
    "RunConfig",
    "SimpleTask",
    "Step",
    "Task",
    "TrainingConfig",
    "__version__",
    "evaluate",
    "register_method",
    "register_programmer",
    "register_task",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module 'stepedit' has no attribute {name!r}")
    try:
        return getattr(import_module(_LAZY[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(f"stepedit.{name} needs PyTorch: pip install 'stepedit[train]'") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
